"""Small models of servers, each with a loader of weights as servers write them, for tests of recorded loaders.

A family has the names and shapes of its public checkpoints; its server cuts and fuses them for tensor parallelism.
"""

import torch

HIDDEN, HEADS, KV_HEADS, WIDTH, INNER, VOCABULARY, EXPERTS = 24, 4, 2, 6, 20, 45, 4
PADDED = 48


class Server(torch.nn.Module):
    """What all families share: parameters by name, and loaders of one weight each."""

    def __init__(self, rank, ranks):
        super().__init__()
        self.rank, self.ranks = rank, ranks
        self.table = torch.nn.ParameterDict()

    def add(self, name, *shape):
        self.table[name.replace(".", "/")] = torch.nn.Parameter(torch.full(shape, -1.0), requires_grad=False)

    def parameter(self, name):
        return self.table[name.replace(".", "/")]

    def copy(self, name, weight):
        parameter = self.parameter(name)
        assert parameter.shape == weight.shape, (name, parameter.shape, weight.shape)
        parameter.data.copy_(weight)

    def load_cut(self, name, weight, dimension):
        parameter = self.parameter(name)
        length = parameter.shape[dimension]
        parameter.data.copy_(weight.narrow(dimension, self.rank * length, length))

    def load_part(self, name, weight, offset, length, first):
        """A part of a fused parameter."""
        self.parameter(name).data.narrow(0, offset, length).copy_(weight.narrow(0, first, length))

    def load_qkv(self, name, weight, part):
        """Heads of queries are cut, those of keys and values are replicated where there are fewer than ranks."""
        queries, keys = HEADS * WIDTH // self.ranks, WIDTH
        replicas = self.ranks // KV_HEADS
        if part == "q":
            return self.load_part(name, weight, 0, queries, self.rank * queries)
        self.load_part(name, weight, queries + (keys if part == "v" else 0), keys, self.rank // replicas * keys)

    def load_merged(self, name, weight, part):
        length = self.parameter(name).shape[0] // 2
        self.load_part(name, weight, part * length, length, self.rank * length)

    def load_vocabulary(self, name, weight):
        """Rows beyond the vocabulary are zero."""
        parameter = self.parameter(name)
        first = self.rank * parameter.shape[0]
        count = max(0, min(weight.shape[0], first + parameter.shape[0]) - first)
        parameter.data[:count].copy_(weight[first : first + count])
        parameter.data[count:].fill_(0)

    def add_attention(self, prefix, bias=False):
        length = HEADS * WIDTH // self.ranks
        self.add(f"{prefix}.qkv_proj.weight", length + 2 * WIDTH, HIDDEN)
        if bias:
            self.add(f"{prefix}.qkv_proj.bias", length + 2 * WIDTH)
        self.add(f"{prefix}.o_proj.weight", HIDDEN, length)

    def add_mlp(self, prefix):
        self.add(f"{prefix}.gate_up_proj.weight", 2 * INNER // self.ranks, HIDDEN)
        self.add(f"{prefix}.down_proj.weight", HIDDEN, INNER // self.ranks)


class Llama(Server):
    NORMS = ("input_layernorm", "post_attention_layernorm")
    BIAS, HEAD_NORMS, IS_TIED = False, False, False

    @classmethod
    def checkpoint(cls):
        shapes = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN), "model.norm.weight": (HIDDEN,)}
        if not cls.IS_TIED:
            shapes["lm_head.weight"] = (VOCABULARY, HIDDEN)
        for i in range(2):
            layer = f"model.layers.{i}"
            shapes |= cls.attention(f"{layer}.self_attn") | cls.mlp(f"{layer}.mlp")
            shapes |= {f"{layer}.{norm}.weight": (HIDDEN,) for norm in cls.NORMS}
        return shapes

    @classmethod
    def attention(cls, prefix):
        rows = {"q": HEADS * WIDTH, "k": KV_HEADS * WIDTH, "v": KV_HEADS * WIDTH}
        shapes = {f"{prefix}.{part}_proj.weight": (length, HIDDEN) for part, length in rows.items()}
        if cls.BIAS:
            shapes |= {f"{prefix}.{part}_proj.bias": (length,) for part, length in rows.items()}
        if cls.HEAD_NORMS:
            shapes |= {f"{prefix}.q_norm.weight": (WIDTH,), f"{prefix}.k_norm.weight": (WIDTH,)}
        return shapes | {f"{prefix}.o_proj.weight": (HIDDEN, HEADS * WIDTH)}

    @classmethod
    def mlp(cls, prefix):
        cut = {f"{prefix}.{part}_proj.weight": (INNER, HIDDEN) for part in ("gate", "up")}
        return cut | {f"{prefix}.down_proj.weight": (HIDDEN, INNER)}

    def __init__(self, rank, ranks):
        super().__init__(rank, ranks)
        self.add("model.embed_tokens.weight", PADDED // ranks, HIDDEN)
        if not self.IS_TIED:
            self.add("lm_head.weight", PADDED // ranks, HIDDEN)
        self.add("model.norm.weight", HIDDEN)
        for i in range(2):
            layer = f"model.layers.{i}"
            self.add_attention(f"{layer}.self_attn", self.BIAS)
            self.add_feed_forward(f"{layer}.mlp")
            for norm in self.NORMS:
                self.add(f"{layer}.{norm}.weight", HIDDEN)
            for norm in ("q_norm", "k_norm") if self.HEAD_NORMS else ():
                self.add(f"{layer}.self_attn.{norm}.weight", WIDTH)

    def add_feed_forward(self, prefix):
        self.add_mlp(prefix)

    def load_weights(self, weights):
        for name, weight in weights:
            self.load_weight(name, weight)

    def load_weight(self, name, weight):
        for part in "qkv":
            if f".{part}_proj." in name:
                return self.load_qkv(name.replace(f"{part}_proj", "qkv_proj"), weight, part)
        for number, part in enumerate(("gate_proj", "up_proj")):
            if f".{part}." in name:
                return self.load_merged(name.replace(part, "gate_up_proj"), weight, number)
        if name in ("model.embed_tokens.weight", "lm_head.weight"):
            return self.load_vocabulary(name, weight)
        if "o_proj" in name or "down_proj" in name:
            return self.load_cut(name, weight, 1)
        return self.copy(name, weight)


class Qwen2(Llama):
    BIAS = True


class Qwen3(Llama):
    HEAD_NORMS = True


class Gemma2(Llama):
    NORMS = (*Llama.NORMS, "pre_feedforward_layernorm", "post_feedforward_layernorm")
    IS_TIED = True


class Phi3(Llama):
    """Fused in the checkpoint already."""

    @classmethod
    def attention(cls, prefix):
        rows = (HEADS + 2 * KV_HEADS) * WIDTH
        return {f"{prefix}.qkv_proj.weight": (rows, HIDDEN), f"{prefix}.o_proj.weight": (HIDDEN, HEADS * WIDTH)}

    @classmethod
    def mlp(cls, prefix):
        return {f"{prefix}.gate_up_proj.weight": (2 * INNER, HIDDEN), f"{prefix}.down_proj.weight": (HIDDEN, INNER)}

    def load_weight(self, name, weight):
        if "qkv_proj" in name:
            parts = weight.split([HEADS * WIDTH, KV_HEADS * WIDTH, KV_HEADS * WIDTH])
            for part, own in zip("qkv", parts, strict=True):
                self.load_qkv(name, own, part)
        elif "gate_up_proj" in name:
            for number, own in enumerate(weight.chunk(2)):
                self.load_merged(name, own, number)
        else:
            super().load_weight(name, weight)


class GptNeox(Llama):
    """Queries, keys and values of each head lie together in the checkpoint."""

    @classmethod
    def attention(cls, prefix):
        rows = HEADS * 3 * WIDTH
        fused = {f"{prefix}.query_key_value.weight": (rows, HIDDEN), f"{prefix}.query_key_value.bias": (rows,)}
        return fused | {f"{prefix}.o_proj.weight": (HIDDEN, HEADS * WIDTH)}

    def add_attention(self, prefix, bias=False):
        length = 3 * HEADS * WIDTH // self.ranks
        self.add(f"{prefix}.query_key_value.weight", length, HIDDEN)
        self.add(f"{prefix}.query_key_value.bias", length)
        self.add(f"{prefix}.o_proj.weight", HIDDEN, HEADS * WIDTH // self.ranks)

    def load_weight(self, name, weight):
        if "query_key_value" not in name:
            return super().load_weight(name, weight)
        shape = weight.shape
        weight = weight.view(HEADS, 3, WIDTH, *shape[1:]).transpose(0, 1).reshape(shape)
        length = HEADS * WIDTH // self.ranks
        for i in range(3):
            self.load_part(name, weight, i * length, length, i * HEADS * WIDTH + self.rank * length)


class Gpt2(Llama):
    """Weights are transposed in the checkpoint, and so are the queries, keys and values that lie side by side in them."""

    @classmethod
    def attention(cls, prefix):
        return {
            f"{prefix}.c_attn.weight": (HIDDEN, 3 * HEADS * WIDTH),
            f"{prefix}.c_proj.weight": (HEADS * WIDTH, HIDDEN),
        }

    def add_attention(self, prefix, bias=False):
        self.add(f"{prefix}.c_attn.weight", 3 * HEADS * WIDTH // self.ranks, HIDDEN)
        self.add(f"{prefix}.c_proj.weight", HIDDEN, HEADS * WIDTH // self.ranks)

    def load_weight(self, name, weight):
        if "c_proj" in name:
            return self.load_cut(name, weight.t(), 1)
        if "c_attn" not in name:
            return super().load_weight(name, weight)
        length = HEADS * WIDTH // self.ranks
        for i, own in enumerate(weight.t().chunk(3)):
            self.load_part(name, own, i * length, length, self.rank * length)


class Mixtral(Llama):
    """Experts are cut by tensor parallelism and stacked: w1 and w3 beside each other, w2."""

    @classmethod
    def mlp(cls, prefix):
        shapes = {f"{prefix}.gate.weight": (EXPERTS, HIDDEN)}
        for expert in range(EXPERTS):
            for part, shape in (("w1", (INNER, HIDDEN)), ("w2", (HIDDEN, INNER)), ("w3", (INNER, HIDDEN))):
                shapes[f"{prefix}.experts.{expert}.{part}.weight"] = shape
        return shapes

    def add_feed_forward(self, prefix):
        self.add(f"{prefix}.gate.weight", EXPERTS, HIDDEN)
        self.add(f"{prefix}.w13", EXPERTS, 2 * INNER // self.ranks, HIDDEN)
        self.add(f"{prefix}.w2", EXPERTS, HIDDEN, INNER // self.ranks)

    def load_weight(self, name, weight):
        if ".experts." not in name:
            return super().load_weight(name, weight)
        prefix, rest = name.split(".experts.")
        expert, part, _ = rest.split(".")
        self.load_expert(prefix, int(expert), part, weight)

    def load_expert(self, prefix, expert, part, weight):
        length = INNER // self.ranks
        if part == "w2":
            self.parameter(f"{prefix}.w2").data[expert].copy_(weight.narrow(1, self.rank * length, length))
            return
        half = self.parameter(f"{prefix}.w13").data[expert].narrow(0, 0 if part == "w1" else length, length)
        half.copy_(weight.narrow(0, self.rank * length, length))


class Qwen3Moe(Mixtral):
    """Whole experts on each rank."""

    HEAD_NORMS = True

    def add_feed_forward(self, prefix):
        self.add(f"{prefix}.gate.weight", EXPERTS, HIDDEN)
        self.add(f"{prefix}.w13", EXPERTS // self.ranks, 2 * INNER, HIDDEN)
        self.add(f"{prefix}.w2", EXPERTS // self.ranks, HIDDEN, INNER)

    def load_expert(self, prefix, expert, part, weight):
        own = expert - self.rank * (EXPERTS // self.ranks)
        if not 0 <= own < EXPERTS // self.ranks:
            return
        if part == "w2":
            self.parameter(f"{prefix}.w2").data[own] = weight
        else:
            self.parameter(f"{prefix}.w13").data[own].chunk(2)[part == "w3"].copy_(weight)


class Llama4(Mixtral):
    """Experts are stacked and transposed in the checkpoint."""

    @classmethod
    def mlp(cls, prefix):
        return {
            f"{prefix}.router.weight": (EXPERTS, HIDDEN),
            f"{prefix}.experts.gate_up_proj": (EXPERTS, HIDDEN, 2 * INNER),
            f"{prefix}.experts.down_proj": (EXPERTS, INNER, HIDDEN),
        }

    def add_feed_forward(self, prefix):
        super().add_feed_forward(prefix)
        self.add(f"{prefix}.router.weight", EXPERTS, HIDDEN)

    def load_weight(self, name, weight):
        if ".experts." not in name:
            return Llama.load_weight(self, name, weight)
        prefix, part = name.split(".experts.")
        length = INNER // self.ranks
        if part == "down_proj":
            own = weight.transpose(-1, -2).narrow(2, self.rank * length, length)
            return self.parameter(f"{prefix}.w2").data.copy_(own)
        halves = weight.transpose(-1, -2).contiguous().chunk(2, dim=-2)
        fused = torch.cat([half.narrow(1, self.rank * length, length) for half in halves], dim=1)
        self.parameter(f"{prefix}.w13").data.copy_(fused)


class Deepseek(Llama):
    """Latent attention: the first projections are joined and replicated, the second ones are cut by heads."""

    RANK, ROPE = 8, 4

    @classmethod
    def attention(cls, prefix):
        return {
            f"{prefix}.q_a_proj.weight": (cls.RANK, HIDDEN),
            f"{prefix}.kv_a_proj_with_mqa.weight": (cls.RANK + cls.ROPE, HIDDEN),
            f"{prefix}.q_b_proj.weight": (HEADS * WIDTH, cls.RANK),
            f"{prefix}.kv_b_proj.weight": (HEADS * 2 * WIDTH, cls.RANK),
            f"{prefix}.o_proj.weight": (HIDDEN, HEADS * WIDTH),
        }

    def add_attention(self, prefix, bias=False):
        self.add(f"{prefix}.fused_qkv_a_proj.weight", 2 * self.RANK + self.ROPE, HIDDEN)
        self.add(f"{prefix}.q_b_proj.weight", HEADS * WIDTH // self.ranks, self.RANK)
        self.add(f"{prefix}.w_uk_t", HEADS // self.ranks, WIDTH, self.RANK)
        self.add(f"{prefix}.w_uv", HEADS // self.ranks, self.RANK, WIDTH)
        self.add(f"{prefix}.o_proj.weight", HIDDEN, HEADS * WIDTH // self.ranks)

    def load_weight(self, name, weight):
        prefix = name.rsplit(".", 2)[0]
        fused = f"{prefix}.fused_qkv_a_proj.weight"
        if "q_a_proj" in name:
            return self.load_part(fused, weight, 0, self.RANK, 0)
        if "kv_a_proj" in name:
            return self.load_part(fused, weight, self.RANK, self.RANK + self.ROPE, 0)
        if "q_b_proj" in name:
            return self.load_cut(name, weight, 0)
        if "kv_b_proj" not in name:
            return super().load_weight(name, weight)
        # What each head makes of the latent vector: keys as they are, values transposed.
        heads = HEADS // self.ranks
        own = weight.view(HEADS, 2 * WIDTH, self.RANK)[self.rank * heads : (self.rank + 1) * heads]
        keys, values = own.split(WIDTH, dim=1)
        self.parameter(f"{prefix}.w_uk_t").data.copy_(keys)
        self.parameter(f"{prefix}.w_uv").data.copy_(values.transpose(1, 2))


FAMILIES = [Llama, Qwen2, Qwen3, Gemma2, Phi3, GptNeox, Gpt2, Mixtral, Qwen3Moe, Llama4, Deepseek]
