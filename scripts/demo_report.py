#!/usr/bin/env python3
"""Prints the runs of the demo side by side and merges their summaries: demo_report.py FOLDER RECIPE..."""

import json
import pathlib
import sys


def main():
    folder, recipes = pathlib.Path(sys.argv[1]), sys.argv[2:]
    runs = {recipe: json.loads((folder / recipe / "summary.json").read_text()) for recipe in recipes}
    (folder / "summary.json").write_text(json.dumps(runs, indent=2) + "\n")

    base = runs[recipes[0]]["val_loss"]
    row = "{:<8} {:>15} {:>9} {:>9} {:>12}"
    print(row.format("recipe", "validation loss", f"vs {recipes[0]}", "tokens/s", "peak memory"))
    for recipe, run in runs.items():
        change = "" if recipe == recipes[0] else f"{100 * (run['val_loss'] / base - 1):+.2f} %"
        memory = f"{run['peak_rss_bytes'] / 2**20:.0f} MiB"
        print(row.format(recipe, f"{run['val_loss']:.4f}", change, f"{run['tokens_per_s']:.0f}", memory))


if __name__ == "__main__":
    main()
