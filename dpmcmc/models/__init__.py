"""The registry of models. A line here makes one live; the line is the reviewed moment."""

from dpmcmc.models import logistic
from dpmcmc.models.base import Guess, Model

MODELS: dict[str, Model] = {model.family: model for model in (logistic.MODEL,)}

__all__ = ["MODELS", "Guess", "Model"]
