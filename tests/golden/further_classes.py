"""Models that transformers has no class for, of its own parts.

DeepSeek-MoE 16B (arXiv:2401.06066): LLaMA's layers, in those from first_k_dense_replace on every moe_layer_freq-th with Qwen3-MoE's
router and experts, and beside them LLaMA's feed-forward part as large as n_shared_experts of these, as its makers'
modeling_deepseek.py has them.
Orion 14B (arXiv:2401.12246): LLaMA with layer norms, as modeling_orion.py and llama.cpp's orion.cpp have it.
The texts of GLM-4.1V and GLM-4.5V by themselves.
MiMo 7B (arXiv:2505.07608): Qwen2, whose files have beside it a layer that predicts further tokens.
"""
import torch
import transformers
from huggingface_hub.dataclasses import strict
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM
from transformers.conversion_mapping import get_checkpoint_conversion_mapping, register_checkpoint_conversion_mapping
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.models.glm4v.modeling_glm4v import Glm4vPreTrainedModel, Glm4vTextModel
from transformers.models.glm4v_moe.modeling_glm4v_moe import Glm4vMoePreTrainedModel, Glm4vMoeTextModel
from transformers.models.llama.modeling_llama import LlamaMLP
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock


@strict
class DeepseekConfig(LlamaConfig):
    model_type = "deepseek"
    attribute_map = {"num_experts": "n_routed_experts"}
    n_routed_experts: int | None = None
    n_shared_experts: int | None = None
    num_experts_per_tok: int | None = None
    moe_intermediate_size: int = 1407
    moe_layer_freq: int = 1
    first_k_dense_replace: int = 0
    norm_topk_prob: bool = False
    scoring_func: str = "softmax"


class DeepseekMoE(Qwen3MoeSparseMoeBlock):
    def __init__(self, config):
        super().__init__(config)
        assert config.scoring_func == "softmax"
        self.gate.norm_topk_prob = config.norm_topk_prob and config.num_experts_per_tok > 1
        wide = LlamaConfig(hidden_size=config.hidden_size, num_attention_heads=config.num_attention_heads, hidden_act=config.hidden_act,
                           intermediate_size=config.moe_intermediate_size * config.n_shared_experts)
        self.shared_experts = LlamaMLP(wide)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        return super().forward(hidden_states) + self.shared_experts(hidden_states)


class DeepseekForCausalLM(LlamaForCausalLM):
    config_class = DeepseekConfig

    def __init__(self, config):
        super().__init__(config)
        for i, layer in enumerate(self.model.layers):
            if config.n_routed_experts is not None and i >= config.first_k_dense_replace and i % config.moe_layer_freq == 0:
                layer.mlp = DeepseekMoE(config)
        self.post_init()



class OrionConfig(LlamaConfig):
    model_type = "orion"


class OrionForCausalLM(LlamaForCausalLM):
    config_class = OrionConfig

    def __init__(self, config):
        super().__init__(config)

        def norm():
            return torch.nn.LayerNorm(config.hidden_size, eps=config.rms_norm_eps)

        self.model.norm = norm()
        for layer in self.model.layers:
            layer.input_layernorm, layer.post_attention_layernorm = norm(), norm()
        self.post_init()


class MiMoConfig(Qwen2Config):
    model_type = "mimo"


class MiMoForCausalLM(Qwen2ForCausalLM):
    config_class = MiMoConfig
    _keys_to_ignore_on_load_unexpected = [r"model\.mtp_layers\."]


def text_alone(base, text_class):
    """The class of a text that is a part of a larger one: its model and a head."""

    class Text(base):
        config_class = text_class.config_class

        def __init__(self, config):
            super().__init__(config)
            self.model = text_class(config)
            self.lm_head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)
            self.post_init()

        def forward(self, input_ids=None, position_ids=None, attention_mask=None, **_):
            x = self.model(input_ids=input_ids, position_ids=position_ids, attention_mask=attention_mask, use_cache=False).last_hidden_state
            return CausalLMOutputWithPast(logits=self.lm_head(x))

    return text_class.config_class, Text


TEXTS = [text_alone(Glm4vPreTrainedModel, Glm4vTextModel), text_alone(Glm4vMoePreTrainedModel, Glm4vMoeTextModel)]
for config_class, model_class in (*TEXTS, (MiMoConfig, MiMoForCausalLM), (DeepseekConfig, DeepseekForCausalLM), (OrionConfig, OrionForCausalLM)):
    transformers.AutoConfig.register(config_class.model_type, config_class, exist_ok=True)
    transformers.AutoModelForCausalLM.register(config_class, model_class, exist_ok=True)
for kind in ("deepseek", "glm4v_moe_text"):
    if not get_checkpoint_conversion_mapping(kind):
        register_checkpoint_conversion_mapping(kind, get_checkpoint_conversion_mapping("qwen2_moe"))
