"""The engine's errors.

EngineError
├── ShapeError   (ValueError)    shapes that a rule refuses
├── DTypeError   (TypeError)     dtypes that a rule refuses
├── BoundsError  (IndexError)    an index outside its axis where the mode is "checked"
├── ConfigError  (ValueError)    a field of a model's configuration (in ``models.config``)
├── SpecError    (ValueError)    a field of a request for a price (in ``pricing.spec``)
├── ExpressionError  (ValueError) a text that is no expression (in ``expression``)
├── GraphFormatError (ValueError) JSON that is no graph (in ``graph_fields``)
├── GradientError (RuntimeError) a gradient that cannot be taken
├── TracingError (RuntimeError)  a value asked for while a function is traced
│   └── SizeError (TypeError)    a size asked for that each run may give anew
└── DeviceError  (RuntimeError)  no compiler, a failed build, a device that is not there
"""

from __future__ import annotations


class EngineError(Exception):
    """Base of all errors that the engine raises on purpose."""


class ShapeError(EngineError, ValueError):
    """Shapes break the rule of an operation."""


class DTypeError(EngineError, TypeError):
    """Dtypes break the rule of an operation."""


class BoundsError(EngineError, IndexError):
    """An index lies outside its axis."""


class GradientError(EngineError, RuntimeError):
    """A gradient is asked for that does not exist."""


class DeviceError(EngineError, RuntimeError):
    """A device or its compiler cannot do what was asked."""


class TracingError(EngineError, RuntimeError):
    """A function asks for a value while it is traced."""


class SizeError(TracingError, TypeError):
    """A function asks for a size while it is traced for any size."""
