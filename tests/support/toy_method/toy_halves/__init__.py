"""A method for lgx in a package of its own."""

from lgx.methods.spec import Look, MethodSpec

SPEC = MethodSpec(
    name="halves",
    paper="A toy method, which no paper describes",
    url="https://example.org/halves",
    looks=(Look("halves", "Halves", "#123456", ":"),),
    module="toy_halves.method:Halves",
    initializer="toy_halves.method:RepeatedHalf",
    learngene="layers",
)
