"""Layers, models and losses."""

from engine.nn.attention import MultiHeadAttention, scaled_dot_product_attention
from engine.nn.layers import (
    GELU,
    Activation,
    Dropout,
    Embedding,
    LayerNorm,
    Linear,
    ReLU,
    RMSNorm,
    Sequential,
    Sigmoid,
    SiLU,
    Tanh,
)
from engine.nn.losses import BCELoss, CrossEntropyLoss, MSELoss
from engine.nn.module import Module, Parameter
from engine.nn.transformer import GPT, FeedForward, GPTBlock, SwiGLU

__all__ = [
    "GELU",
    "GPT",
    "Activation",
    "BCELoss",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "FeedForward",
    "GPTBlock",
    "LayerNorm",
    "Linear",
    "MSELoss",
    "Module",
    "MultiHeadAttention",
    "Parameter",
    "RMSNorm",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SwiGLU",
    "Tanh",
    "scaled_dot_product_attention",
]
