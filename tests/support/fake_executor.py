"""An executor without processes, and the files of a finished run."""

from pathlib import Path

from lgx.core.rows import Row, write_rows
from lgx.runs.executors import Submission
from lgx.runs.jobs import mark_finished


class FakeExecutor:
    """An executor whose jobs end one after another at each poll, in the order of their start."""

    interval = 0.0

    def __init__(self, limit, play):
        self.limit, self.play = limit, play
        self.events, self.most, self._open = [], 0, []

    def submit(self, jobs):
        submissions = [Submission(job, None) for job in jobs]
        self._open += submissions
        self.most = max(self.most, len(self._open))
        self.events += [("start", job.name) for job in jobs]
        return submissions

    def poll(self, submission):
        if submission is not self._open[0]:
            return None
        self._open.pop(0)
        self.events.append(("end", submission.job.name))
        return self.play(submission.job)

    def cancel(self, submissions):
        self.events += [("cancel", submission.job.name) for submission in submissions]


def finish(job):
    """Write the files of a finished run."""
    row = Row("m", "a", "t", "test", 1, "acc", 0.5, 0, 10, job.folder)
    write_rows(Path(job.folder) / "results.csv", [row])
    mark_finished(job)
    return "finished"
