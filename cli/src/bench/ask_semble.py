"""Asks semble (PyPI) what `cloister bench index` asks the index. Reads a request (JSON, the first argument), writes one JSON object.

The model is the one that SEMBLE_MODEL_NAME names; a directory makes it work without a network.
"""

import json
import resource
import sys
import time

from semble import SembleIndex
from semble.types import ContentType
from semble.utils import resolve_model_name
from semble.version import __version__

FILES_MAX = 50


def cpu():
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


def files(results):
    return list(dict.fromkeys(result.chunk.file_path for result in results))[:FILES_MAX]


def ask(tree, settings):
    from semble.index.dense import load_model

    load_model()  # Reading the model is no part of indexing.
    begun, cpu_begun = time.perf_counter(), cpu()
    index = SembleIndex.from_path(tree["dir"], content=[ContentType.CODE])
    out = {"seconds": time.perf_counter() - begun, "cpu_seconds": cpu() - cpu_begun, "answers": {}, "search_seconds": []}
    for setting in settings:
        answers = []
        for query in tree["queries"]:
            begun = time.perf_counter()
            found = index.search(query, top_k=setting["top_k"], alpha=setting["alpha"], rerank=setting["rerank"])
            out["search_seconds"].append(time.perf_counter() - begun)
            answers.append(files(found))
        out["answers"][setting["name"]] = answers
    out["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return out


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        request = json.load(file)
    trees = [ask(tree, request["settings"]) for tree in request["trees"]]
    print(json.dumps({"version": __version__, "model": resolve_model_name(), "trees": trees}))


main()
