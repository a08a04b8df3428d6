"""`traceanalyzer completion`: a script that lets a shell complete commands, options and names."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from traceanalyzer.commands import COMPLETION_VARIABLE, PROGRAM

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash  eval "$(traceanalyzer completion bash)"             in ~/.bashrc
    zsh   eval "$(traceanalyzer completion zsh)"              in ~/.zshrc, below compinit
    fish  traceanalyzer completion fish | source              in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    if script is None:
        raise click.UsageError(f"click has no completion for {shell}")
    program = click.get_current_context().find_root().command
    click.echo(script(program, {}, PROGRAM, COMPLETION_VARIABLE).source())


def completes(names: Callable[[], Iterable[tuple[str, str]]]) -> Completer:
    """Return a completer of names, each with what it means; names are only read when a shell asks."""

    def items(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name, help=meaning) for name, meaning in names() if name.startswith(incomplete)]

    return items


def metric_names() -> list[tuple[str, str]]:
    """Return every metric with the meaning of one row."""
    from traceanalyzer.metrics import metrics

    return [(name, metric.summary) for name, metric in metrics().items()]


def rule_names() -> list[tuple[str, str]]:
    """Return every built-in rule with its title."""
    from traceanalyzer.rules import load_rules

    return [(rule.id, rule.title) for rule in load_rules(tests=False)]


def cause_names() -> list[tuple[str, str]]:
    """Return every cause that `whatif --remove` takes, with its meaning."""
    from traceanalyzer.attribution.buckets import CAUSES
    from traceanalyzer.text.words import bucket_words

    return [("host", "all causes on the host"), ("dev", "all causes on the device")] + [
        (cause, bucket_words(cause)) for cause in sorted(CAUSES)
    ]
