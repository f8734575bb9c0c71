#!/usr/bin/env python3
"""Writes the manifest of a model that goes from a trainer to a server: one array a line, for `retile transfer`.

The trainer is FSDP x tensor parallel, with experts over expert parallel groups; the server tensor x expert parallel, with
key-value heads replicated where it has more devices than heads. Any numbers of devices will do: groups are as large as
divide them. With as many devices on both sides they are the same devices; otherwise the server's come after the trainer's.

    examples/models/manifest.py qwen3-235b 256 128 | retile transfer - --dry-run
    examples/models/manifest.py llama-70b 8 8 --layers 2 --divide 16 | retile transfer - --max-bytes 1MiB
"""

import argparse
import json

# From the config.json of the models' public repositories: meta-llama/Llama-3.1-70B, Qwen/Qwen3-30B-A3B,
# Qwen/Qwen3-235B-A22B, deepseek-ai/DeepSeek-V3 and moonshotai/Kimi-K2-Instruct. Sizes in elements. Those of Qwen3 were
# compared with the arguments that slime trains these models with (scripts/models), those of Kimi-K2 with Moonshot's
# summary of the model and the fields of its config.json that are published elsewhere.
# fmt: off
MODELS = {
    "llama-70b": dict(layers=80, hidden=8192, heads=64, kv=8, width=128, inner=28672, vocab=128256, fused=True),
    "qwen3-30b-a3b": dict(layers=48, hidden=2048, heads=32, kv=4, width=128, vocab=151936, experts=128, expert_inner=768),
    "qwen3-235b": dict(layers=94, hidden=4096, heads=64, kv=4, width=128, vocab=151936, experts=128, expert_inner=1536),
    "deepseek-v3": dict(layers=61, hidden=7168, heads=128, vocab=129280, inner=18432, dense_layers=3, experts=256,
                        expert_inner=2048, shared_inner=2048, q_rank=1536, kv_rank=512, rope=64, nope=128, value=128),
    "kimi-k2": dict(layers=61, hidden=7168, heads=64, vocab=163840, inner=18432, dense_layers=1, experts=384,
                    expert_inner=2048, shared_inner=2048, q_rank=1536, kv_rank=512, rope=64, nope=128, value=128),
}
# fmt: on


def largest_divisor(count, most):
    return max(i for i in range(1, min(count, most) + 1) if count % i == 0)


class Cluster:
    """The devices of both sides, and how arrays are cut over them."""

    def __init__(self, trainer, server, kv):
        self.trainer, self.server = trainer, server
        self.first = 0 if trainer == server else trainer  # of the server's devices
        self.tp = largest_divisor(trainer, 2 if trainer <= 8 else 4 if trainer <= 64 else 8)
        self.source = {"fsdp": trainer // self.tp, "tp": self.tp}
        server_tp = largest_divisor(server, 8)
        replicas = largest_divisor(server_tp, max(1, server_tp // kv))  # of each key-value head
        self.target = {"replica": server // server_tp, "kv": server_tp // replicas, "half": replicas}
        self.target_devices = None if self.first == 0 else list(range(self.first, self.first + server))
        self.expert_groups = largest_divisor(trainer, 8)
        self.expert_tp = largest_divisor(server, 4) if server > 8 else 1

    def line(self, name, shape, source, target, view=None, meshes=None, devices=(None, None)):
        array = {"name": name, "dtype": "bf16", "shape": shape}
        array["mesh"], array["dst_mesh"] = meshes or (self.source, self.target)
        array["src"], array["dst"] = source, target
        if view:
            array["src_view"] = array["dst_view"] = view
        for key, listed in zip(("src_devices", "dst_devices"), devices, strict=True):
            if listed is not None:
                array[key] = listed
        return json.dumps(array, separators=(",", ":"))

    def dense(self, name, shape, cut, view=None, is_kv=False):
        """`cut`: the dimension, or factor of a view, that tensor parallelism cuts; None: none."""
        count = len(shape) if not view else sum(len(factors) for factors in view)
        source, target = [[] for _ in range(count)], [[] for _ in range(count)]
        if cut is not None:
            source[cut].append("tp")
            target[cut] += ["kv"] if is_kv else ["half", "kv"]
        source[0 if cut is None or cut == count - 1 else count - 1].insert(0, "fsdp")
        return self.line(name, shape, source, target, view, devices=(None, self.target_devices))

    def expert(self, name, shape, cut, number, count):
        group = number * self.expert_groups // count
        sources = list(range(group, self.trainer, self.expert_groups))
        place = number * (self.server // self.expert_tp) // count
        first = self.first + place * self.expert_tp
        target = [[], []]
        target[cut] = ["etp"]
        meshes = ({"fsdp": len(sources)}, {"etp": self.expert_tp})
        return self.line(
            name, shape, [["fsdp"], []], target, None, meshes, (sources, list(range(first, first + self.expert_tp)))
        )


def attention(model, cluster, name):
    hidden, heads, width = model["hidden"], model["heads"], model.get("width")
    if "q_rank" in model:  # latent attention
        per_head = model["nope"] + model["rope"]
        yield cluster.dense(name + "q_a_proj.weight", [model["q_rank"], hidden], None)
        yield cluster.dense(name + "q_a_layernorm.weight", [model["q_rank"]], None)
        yield cluster.dense(name + "q_b_proj.weight", [heads * per_head, model["q_rank"]], 0)
        yield cluster.dense(name + "kv_a_proj_with_mqa.weight", [model["kv_rank"] + model["rope"], hidden], None)
        yield cluster.dense(name + "kv_a_layernorm.weight", [model["kv_rank"]], None)
        yield cluster.dense(name + "kv_b_proj.weight", [heads * (model["nope"] + model["value"]), model["kv_rank"]], 0)
        yield cluster.dense(name + "o_proj.weight", [hidden, heads * model["value"]], 1)
        return
    kv = model["kv"]
    if model.get("fused"):  # q, k and v of a group of heads one after the other
        group = heads // kv + 2
        yield cluster.dense(name + "qkv_proj.weight", [kv * group * width, hidden], 0, [[kv, group, width], [hidden]])
    else:
        yield cluster.dense(name + "q_proj.weight", [heads * width, hidden], 0)
        yield cluster.dense(name + "k_proj.weight", [kv * width, hidden], 0, is_kv=True)
        yield cluster.dense(name + "v_proj.weight", [kv * width, hidden], 0, is_kv=True)
        yield cluster.dense(name + "q_norm.weight", [width], None)
        yield cluster.dense(name + "k_norm.weight", [width], None)
    yield cluster.dense(name + "o_proj.weight", [hidden, heads * width], 1)


def gated(model, cluster, name, inner):
    hidden = model["hidden"]
    if model.get("fused"):
        yield cluster.dense(name + "gate_up_proj.weight", [2 * inner, hidden], 1, [[2, inner], [hidden]])
    else:
        yield cluster.dense(name + "gate_proj.weight", [inner, hidden], 0)
        yield cluster.dense(name + "up_proj.weight", [inner, hidden], 0)
    yield cluster.dense(name + "down_proj.weight", [hidden, inner], 1)


def experts(model, cluster, name):
    hidden, inner, count = model["hidden"], model["expert_inner"], model["experts"]
    yield cluster.dense(name + "gate.weight", [count, hidden], None)
    for number in range(count):
        prefix = f"{name}experts.{number}."
        yield cluster.expert(prefix + "gate_proj.weight", [inner, hidden], 0, number, count)
        yield cluster.expert(prefix + "up_proj.weight", [inner, hidden], 0, number, count)
        yield cluster.expert(prefix + "down_proj.weight", [hidden, inner], 1, number, count)
    if "shared_inner" in model:
        yield from gated(model, cluster, name + "shared_experts.", model["shared_inner"])


def manifest(model, cluster):
    hidden, vocab = model["hidden"], model["vocab"]
    yield cluster.dense("model.embed_tokens.weight", [vocab, hidden], 0)
    for layer in range(model["layers"]):
        name = f"model.layers.{layer}."
        yield cluster.dense(name + "input_layernorm.weight", [hidden], None)
        yield from attention(model, cluster, name + "self_attn.")
        yield cluster.dense(name + "post_attention_layernorm.weight", [hidden], None)
        if "experts" in model and layer >= model.get("dense_layers", 0):
            yield from experts(model, cluster, name + "mlp.")
        else:
            yield from gated(model, cluster, name + "mlp.", model["inner"])
    yield cluster.dense("model.norm.weight", [hidden], None)
    yield cluster.dense("lm_head.weight", [vocab, hidden], 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("trainer", type=int, help="devices of the trainer")
    parser.add_argument("server", type=int, help="devices of the server")
    parser.add_argument("--layers", type=int, help="only so many")
    parser.add_argument("--divide", type=int, default=1, help="widths by this, for models that fit on one machine")
    arguments = parser.parse_args()
    if min(arguments.trainer, arguments.server) < 1:
        parser.error("both sides have a device")
    model = dict(MODELS[arguments.model])
    model["layers"] = arguments.layers or model["layers"]
    for key in model:
        if key not in ("layers", "heads", "kv", "experts", "dense_layers", "fused"):
            model[key] = max(1, model[key] // arguments.divide)
    for line in manifest(model, Cluster(arguments.trainer, arguments.server, model.get("kv", model["heads"]))):
        print(line)


if __name__ == "__main__":
    main()
