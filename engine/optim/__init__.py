"""Optimisers, gradient clipping and learning-rate schedules."""

from engine.optim.adam import Adam, AdamW
from engine.optim.clip import clip_grad_norm_, clip_grad_value_, grad_norm
from engine.optim.descent import SGD, Adagrad, Lion, RMSprop
from engine.optim.optimizer import Optimizer

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "Lion",
    "Optimizer",
    "RMSprop",
    "clip_grad_norm_",
    "clip_grad_value_",
    "grad_norm",
]
