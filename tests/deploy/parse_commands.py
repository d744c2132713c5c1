"""Run inside the vLLM environment: reads commands as JSON lists of words, says of each whether vLLM takes it.

With "parse" only the command line is read; with "configure" the engine's whole configuration is made, models included.
"""

import json
import sys

from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser


def verdict(words: list[str], how: str) -> str:
    try:
        arguments = make_arg_parser(FlexibleArgumentParser()).parse_args(words)
        engine = AsyncEngineArgs.from_cli_args(arguments)
        if how == "configure":
            engine.model = arguments.model_tag or arguments.model
            speculation = engine.create_engine_config().speculative_config
            return f"ok {speculation.method if speculation else None}"
    except (SystemExit, Exception) as error:  # noqa: BLE001 - any refusal is the answer
        return f"{type(error).__name__}: {error}"
    return "ok"


if __name__ == "__main__":
    print("\n" + json.dumps([verdict(words, sys.argv[1]) for words in json.load(sys.stdin)]))
