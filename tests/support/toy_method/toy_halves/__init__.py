"""A method for lgx in a package of its own."""

from lgx.methods.spec import MethodSpec

SPEC = MethodSpec(
    name="halves",
    paper="A toy method, which no paper describes",
    url="https://example.org/halves",
    module="toy_halves.method:Halves",
    initializer="toy_halves.method:RepeatedHalf",
    learngene="layers",
)
