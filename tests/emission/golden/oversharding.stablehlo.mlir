// f32[8, 8, 8, 4] from [1{y,x}8, 8, 8, 4] to [8, 4{y}8, 2{x}8, 4]
//
//   mesh {x: 4, y: 2, z: 4}  // planner paper
//     [1{y,x}8, 8, 8, 4]        // 256 elements per device
//       -> dynslice(3; 4)  // cost 0
//     [1{y,x}8, 8, 8, 1{z}4]    //  64
//       -> alltoall(0 -> 1; 2)  // cost 64
//     [2{x}8, 4{y}8, 8, 1{z}4]  //  64
//       -> alltoall(0 -> 2; 4)  // cost 64
//     [8, 4{y}8, 2{x}8, 1{z}4]  //  64
//       -> allgather(3; 4)  // cost 256
//     [8, 4{y}8, 2{x}8, 4]      // 256
//   // cost 384 (paper, optimal over the paper's collectives), floor 224
//   // peak 256 elements per device, no more than the larger of source and target
module @redistribute attributes {mhlo.num_partitions = 32 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%tile: tensor<1x8x8x4xf32>) -> tensor<8x4x2x4xf32> {
    // dynslice(3; 4), cost 0: [1{y,x}8, 8, 8, 1{z}4]
    %0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.constant dense<[0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]> : tensor<32xi32>
    %2 = stablehlo.partition_id : tensor<ui32>
    %3 = stablehlo.convert %2 : (tensor<ui32>) -> tensor<i32>
    %4 = stablehlo.dynamic_slice %1, %3, sizes = [1] : (tensor<32xi32>, tensor<i32>) -> tensor<1xi32>
    %5 = stablehlo.reshape %4 : (tensor<1xi32>) -> tensor<i32>
    %6 = stablehlo.dynamic_slice %tile, %0, %0, %0, %5, sizes = [1, 8, 8, 1] : (tensor<1x8x8x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8x1xf32>
    // alltoall(0 -> 1; 2), cost 64: [2{x}8, 4{y}8, 8, 1{z}4]
    %7 = "stablehlo.all_to_all"(%6) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, concat_dimension = 0 : i64, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7], [8, 12], [9, 13], [10, 14], [11, 15], [16, 20], [17, 21], [18, 22], [19, 23], [24, 28], [25, 29], [26, 30], [27, 31]]> : tensor<16x2xi64>, split_count = 2 : i64, split_dimension = 1 : i64}> : (tensor<1x8x8x1xf32>) -> tensor<2x4x8x1xf32>
    // alltoall(0 -> 2; 4), cost 64: [8, 4{y}8, 2{x}8, 1{z}4]
    %8 = "stablehlo.all_to_all"(%7) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, concat_dimension = 0 : i64, replica_groups = dense<[[0, 8, 16, 24], [1, 9, 17, 25], [2, 10, 18, 26], [3, 11, 19, 27], [4, 12, 20, 28], [5, 13, 21, 29], [6, 14, 22, 30], [7, 15, 23, 31]]> : tensor<8x4xi64>, split_count = 4 : i64, split_dimension = 2 : i64}> : (tensor<2x4x8x1xf32>) -> tensor<8x4x2x1xf32>
    // allgather(3; 4), cost 256: [8, 4{y}8, 2{x}8, 4]
    %9 = "stablehlo.all_gather"(%8) <{all_gather_dim = 3 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15], [16, 17, 18, 19], [20, 21, 22, 23], [24, 25, 26, 27], [28, 29, 30, 31]]> : tensor<8x4xi64>, use_global_device_ids}> : (tensor<8x4x2x1xf32>) -> tensor<8x4x2x4xf32>
    return %9 : tensor<8x4x2x4xf32>
  }
}
