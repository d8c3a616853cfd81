"""The exact discrete Gaussian draws of kernels.arithmetic.noise, compiled."""

from typing import Any

from dpmcmc.kernels.arithmetic import noise as plain
from dpmcmc.kernels.compiled.maths import calling, kernel, leaf

_compiled: dict[str, Any] = {}
for _name in ("_word", "_one_in", "_half", "_exp"):  # each calls those before it
    _compiled[_name] = leaf(calling(getattr(plain, _name), _compiled))
discrete_gaussians = kernel(calling(plain.discrete_gaussians, _compiled))
