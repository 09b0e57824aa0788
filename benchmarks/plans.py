"""Plans of long trainings on 8 and 64 GPUs, beside what steps take at least where the CPU starts their kernels.

``python -m benchmarks.plans`` writes ``docs/performance/plans.csv``. Hours of the plan are those of its FLOPs at
:data:`MFU` of :data:`TFLOPS`; hours of the CPU are the plan's steps at the time of a step that ``gpu_methods.csv`` has
for a batch at which the CPU decided the time. A run takes at least the larger of both.
"""

import csv
import json
import subprocess
import sys
from pathlib import Path

from lgx.host.files import atomic_path

FOLDER = Path("docs/performance")
TFLOPS, MFU = 989, 0.4
"""Peak of an H100 or H200 in bfloat16 without sparsity; the share that a training is assumed to reach."""
RUNS = {
    "TAL": ["--config", "experiments/tal/table1/tal.yaml"],
    "SWS": ["--config", "experiments/sws/paper/learngene.yaml"],
    "LSAMD": ["--config", "experiments/lsamd/paper/selection.yaml", "--data", "ImageNet"],
    "Nested": [
        "--config", "lgx/configs/nested.yaml", "--model.ancestor", "deit_base_patch16_224.fb_in1k", "--data",
        "ImageNet", "--data.root", "data", "--data.img_size", "224", "--data.labels", "false",
    ],
}  # fmt: skip


def main() -> None:
    """Plan every run on 8 and 64 GPUs and write the rows."""
    with (FOLDER / "gpu_methods.csv").open() as file:
        seconds = {row["what"]: float(row["seconds"]) for row in csv.DictReader(file) if row["size"] == "12-Tiny"}
    rows = []
    for method, options in RUNS.items():
        for nodes in (1, 8):
            words = [*options, "--gpus", "8", "--nodes", str(nodes), "--tflops", str(TFLOPS), "--mfu", str(MFU)]
            done = subprocess.run(
                [sys.executable, "-m", "lgx", "plan", *words, "--json"], capture_output=True, text=True
            )
            if done.returncode:
                raise SystemExit(done.stderr)
            plan = json.loads(done.stdout)
            steps = plan["steps"]["total"]
            of_cpu = steps * seconds[method] / 3600
            rows.append([method, 8 * nodes, steps, f"{plan['hours']:.3g}", f"{of_cpu:.3g}"])
    with atomic_path(FOLDER / "plans.csv") as temporary, temporary.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["what", "gpus", "steps", "plan_hours", "cpu_hours"], *rows])


if __name__ == "__main__":
    main()
