"""Command line: ``python -m recipes.generate RUN --prompt TEXT``: a language model continues a text."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from recipes.errors import RecipeError, exit_code_of
from recipes.names import in_utf8
from recipes.trained import open_run


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the prompt and its continuation.  Returns: 0; 2 for wrong options; 1 if the run has no language model."""
    parser = _parser()
    args = parser.parse_args(argv)
    for option, right in (("--tokens", args.tokens >= 1), ("--temperature", args.temperature >= 0),
                          ("--top-k", args.top_k is None or args.top_k >= 1),
                          ("--top-p", args.top_p is None or 0 < args.top_p <= 1),
                          ("--seed", 0 <= args.seed < 2**32)):
        if not right:
            parser.error(f"{option} is out of its range, see --help")
    if args.temperature == 0 and (args.top_k is not None or args.top_p is not None):
        parser.error("--temperature 0 takes the most likely token, so it excludes --top-k and --top-p")
    return exit_code_of(lambda: _work(args))


def _work(args: argparse.Namespace) -> None:
    if args.prompt != in_utf8(args.prompt):
        raise RecipeError("generate", "the prompt is not UTF-8 text.", {"--prompt": ascii(args.prompt)},
                          fix="a terminal, or a file for the shell, whose encoding is UTF-8.")
    trained = open_run(args.run, last=args.last)
    if not hasattr(trained.task, "generate"):
        raise RecipeError("generate", "the run has no language model.",
                          {"run": trained.folder, "task": trained.config.task.name},
                          fix="a run of the task language_model.")
    text = trained.task.generate(trained.params, args.prompt, args.tokens, temperature=args.temperature,
                                 top_k=args.top_k, top_p=args.top_p, seed=args.seed)
    print(args.prompt + text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="recipes.generate", description="Continues a text with a language model.",
                                     epilog='example: python -m recipes.generate gpt2_stdlib --prompt "def main"')
    parser.add_argument("run", help="a run folder, or a name in ./runs")
    parser.add_argument("--prompt", required=True, metavar="TEXT", help="the beginning of the text")
    parser.add_argument("--tokens", type=int, default=200, metavar="N", help="number of new tokens; 200 by default")
    parser.add_argument("--temperature", type=float, default=1.0, metavar="T",
                        help="above 1 more varied text, below 1 less; 0 takes the most likely token; 1 by default")
    parser.add_argument("--top-k", type=int, metavar="K", help="sample only from the K most likely tokens")
    parser.add_argument("--top-p", type=float, metavar="P",
                        help="sample only from the most likely tokens whose probabilities sum to P, in (0, 1]")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the sampling; 0 by default")
    parser.add_argument("--last", action="store_true", help="use the last parameters, not the best on validation")
    return parser


if __name__ == "__main__":
    sys.exit(main())
