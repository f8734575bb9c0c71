"""Checkpoints of real models, which `transformers` makes of configurations, through recorded loaders of servers.

Skipped without PyTorch (make test-torch) and without transformers, which is no package of the tests' own.
"""

import re

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch installs it")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from thread_group import everywhere

import retile
import retile.torch

TRAINERS, SERVERS = 2, 4
SIZES = dict(
    hidden_size=24, num_attention_heads=4, num_key_value_heads=2, intermediate_size=20, vocab_size=45,
    num_hidden_layers=2, head_dim=6, pad_token_id=0,
)  # fmt: skip
EXPERTS = dict(moe_intermediate_size=20, num_experts_per_tok=2)
LATENT = dict(q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=6)
FAMILIES = {
    "Llama": SIZES,
    "Mistral": SIZES,
    "Qwen2": SIZES,
    "Qwen3": SIZES,
    "Gemma2": SIZES,
    "Olmo2": SIZES,
    "Phi3": SIZES,
    "GPTNeoX": {key: value for key, value in SIZES.items() if key not in ("num_key_value_heads", "head_dim")},
    "Bloom": dict(hidden_size=24, n_head=4, n_layer=2, vocab_size=45),
    "GPT2": dict(n_embd=24, n_head=4, n_inner=20, vocab_size=45, n_layer=2, n_positions=16),
    "Mixtral": SIZES | dict(num_local_experts=4),
    "Qwen3Moe": SIZES | EXPERTS | dict(num_experts=4),
    "DeepseekV3": SIZES | EXPERTS | LATENT | dict(
        num_key_value_heads=4, n_routed_experts=4, n_group=2, topk_group=1, first_k_dense_replace=1
    ),
}  # fmt: skip


def model_of(family):
    torch.manual_seed(5)
    return transformers.AutoModelForCausalLM.from_config(getattr(transformers, f"{family}Config")(**FAMILIES[family]))


class Server(torch.nn.Module):
    """One rank of tensor parallelism, with weights fused as vLLM does it. A parameter has pieces of weights one after the
    other along its first dimension; which ones, and where, follows from names and shapes."""

    def __init__(self, config, shapes, rank):
        super().__init__()
        self.rank, self.heads = rank, config.num_attention_heads
        self.kv_heads = getattr(config, "num_key_value_heads", None) or self.heads
        self.width = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.table, self.offsets, lengths = torch.nn.ParameterDict(), {}, {}
        for name, shape in shapes.items():
            for parameter, order, piece in self.pieces(name, torch.empty(shape, device="meta")):
                lengths.setdefault(parameter, {})[order] = piece.shape
        for parameter, pieces in lengths.items():
            rows = 0
            for order in sorted(pieces):
                self.offsets[parameter, order] = rows
                rows += pieces[order][0]
            shape = (rows, *pieces[order][1:])
            self.table[parameter.replace(".", "/")] = torch.nn.Parameter(torch.full(shape, -1.0), requires_grad=False)

    def load_weights(self, weights):
        for name, weight in weights:
            for parameter, order, piece in self.pieces(name, weight):
                data = self.table[parameter.replace(".", "/")].data
                data.narrow(0, self.offsets[parameter, order], piece.shape[0]).copy_(piece)

    def cut(self, weight, dimension=0):
        length = weight.shape[dimension] // SERVERS
        assert length * SERVERS == weight.shape[dimension]
        return weight.narrow(dimension, self.rank * length, length)

    def heads_of(self, weight, part):
        """Queries are cut; heads of keys and values are replicated where there are fewer than ranks."""
        if part == "q" or self.kv_heads >= SERVERS:
            return self.cut(weight)
        return weight.narrow(0, self.rank * self.kv_heads // SERVERS * self.width, self.width)

    def pieces(self, name, weight):
        """Names of parameters, which of their pieces it is, and the piece."""
        *_, module, kind = name.split(".")
        expert = re.search(r"\.experts\.(\d+)\.", name)
        fused = name.replace(module, "qkv_proj")
        if module in ("q_proj", "k_proj", "v_proj"):
            yield fused, "qkv".index(module[0]), self.heads_of(weight, module[0])
        elif module == "qkv_proj":  # fused in the checkpoint
            lengths = [self.heads * self.width] + [self.kv_heads * self.width] * 2
            for order, (part, own) in enumerate(zip("qkv", weight.split(lengths), strict=True)):
                yield name, order, self.heads_of(own, part)
        elif module == "query_key_value":  # head by head
            own = self.cut(weight.view(self.heads, 3, self.width, *weight.shape[1:]))
            yield name, 0, own.transpose(0, 1).reshape(-1, *weight.shape[1:])
        elif module == "c_attn":  # weights are transposed
            for order, own in enumerate((weight.t() if kind == "weight" else weight).chunk(3)):
                yield name, order, self.cut(own)
        elif kind in ("gate_up_proj", "down_proj"):  # stacked experts
            stacked = weight.chunk(2, 1) if kind == "gate_up_proj" else (weight,)
            pieces = [self.cut(one, 1 if kind == "gate_up_proj" else 2) for one in stacked]
            yield name, 0, torch.cat(pieces, 1) if len(pieces) > 1 else pieces[0]
        elif module in ("gate_proj", "up_proj", "w1", "w3"):
            order = int(expert[1]) if expert else 0, module in ("up_proj", "w3")
            stack = re.sub(r"\.experts\.\d+", ".experts", name).replace(module, "gate_up_proj")
            yield stack, order, self.cut(weight)
        elif module == "gate_up_proj":
            for order, own in enumerate(weight.chunk(2)):
                yield name, order, self.cut(own)
        elif expert:
            yield re.sub(r"\.experts\.\d+", ".experts", name), int(expert[1]), self.cut(weight, 1)
        else:
            yield name, 0, self.whole_or_cut(module, kind, weight)

    def whole_or_cut(self, module, kind, weight):
        if module in ("embed_tokens", "lm_head", "embed_in", "embed_out", "wte", "word_embeddings"):
            rows = -(-weight.shape[0] // SERVERS)
            return weight[self.rank * rows : (self.rank + 1) * rows]
        if module in ("o_proj", "down_proj", "dense", "dense_4h_to_h", "c_proj"):
            if kind == "bias":
                return weight
            return self.cut(weight.t() if module == "c_proj" else weight, 1)
        if module in ("dense_h_to_4h", "c_fc", "q_b_proj", "kv_b_proj"):
            return self.cut(weight.t() if (module, kind) == ("c_fc", "weight") else weight)
        return weight


@pytest.mark.parametrize("family", FAMILIES)
def test_servers_have_what_their_loaders_load(family):
    model = model_of(family)
    weights = dict(model.state_dict())
    shapes = {name: weight.shape for name, weight in weights.items()}

    def action(group):
        t = retile.torch.Transfer(group=group, max_bytes=1 << 15, verify="crc32")
        if group.rank < TRAINERS:
            for name, weight in weights.items():
                axes = [["fsdp"]] + [[]] * (weight.dim() - 1)
                layout = retile.Layout.cut(retile.Mesh({"fsdp": TRAINERS}), weight.shape, axes)
                for lo, hi in layout.boxes(group.rank):
                    t.add_source(name, weight[lo[0] : hi[0]].clone(), layout)
            t.commit()
            t.start().wait()
            return
        served, expected = (Server(model.config, shapes, group.rank - TRAINERS) for _ in range(2))
        with t.record(served) as recorded:
            served.load_weights(recorded)
        expected.load_weights(weights.items())
        assert not any((one == -1).all() for one in expected.parameters())
        t.commit()
        t.start().wait()
        for (name, a), (_, b) in zip(served.named_parameters(), expected.named_parameters(), strict=True):
            assert torch.equal(a, b), name

    everywhere(TRAINERS + SERVERS, action)
