"""The teacher of a method that asks for one."""

from collections.abc import Callable

from lgx.components.teacher import Teacher, TeacherRequest
from lgx.errors import UserError


def load_teacher(request: TeacherRequest, images_vary: bool, say: Callable[[str], None]) -> Teacher:
    """Load a teacher, and say where its answers are kept.

    Args:
        request: What the method asks for.
        images_vary: Whether training images differ from epoch to epoch.
        say: Prints a line.

    Raises:
        UserError: If the teacher cannot be read or does not suit the task, or if its answers are to be kept although
            images vary.
    """
    if request.cached and images_vary:
        raise UserError(
            "model.cache_ancestor: the ancestor's answers can be kept only of images that are the same in each epoch; "
            "set data.augment to none and data.transforms to null, and model.mixup and model.cutmix to 0"
        )
    teacher = Teacher.answering(request)
    if cache := teacher.cache:
        say(f"ancestor   is asked in each epoch; {cache.failure}" if cache.failure else f"answers    in {cache.path}")
    return teacher
