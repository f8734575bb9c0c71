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
mesh.mesh @mesh(shape = 4x2x4)

func.func @redistribute(%tile: tensor<1x8x8x4xf32>) -> tensor<8x4x2x4xf32> {
  // dynslice(3; 4), cost 0: [1{y,x}8, 8, 8, 1{z}4]
  %0 = mesh.all_slice %tile on @mesh mesh_axes = [2] slice_axis = 3 : tensor<1x8x8x4xf32> -> tensor<1x8x8x1xf32>
  // alltoall(0 -> 1; 2), cost 64: [2{x}8, 4{y}8, 8, 1{z}4]
  %1 = mesh.all_to_all %0 on @mesh mesh_axes = [1] split_axis = 1 concat_axis = 0 : tensor<1x8x8x1xf32> -> tensor<2x4x8x1xf32>
  // alltoall(0 -> 2; 4), cost 64: [8, 4{y}8, 2{x}8, 1{z}4]
  %2 = mesh.all_to_all %1 on @mesh mesh_axes = [0] split_axis = 2 concat_axis = 0 : tensor<2x4x8x1xf32> -> tensor<8x4x2x1xf32>
  // allgather(3; 4), cost 256: [8, 4{y}8, 2{x}8, 4]
  %3 = mesh.all_gather %2 on @mesh mesh_axes = [2] gather_axis = 3 : tensor<8x4x2x1xf32> -> tensor<8x4x2x4xf32>
  return %3 : tensor<8x4x2x4xf32>
}
