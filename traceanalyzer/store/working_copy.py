"""The folder of this machine that is a working copy of a store in a bucket, which machines share.

What is complete here is published there, and what is there is fetched into this folder before it is used.

    cards/<name>-<key>/   of traces in the bucket: what tells them apart, without their tables
"""

from __future__ import annotations

import re
from pathlib import Path

from traceanalyzer.remote.location import Location
from traceanalyzer.remote.remote_object import RemoteObject
from traceanalyzer.store import writing
from traceanalyzer.store.shared_store import SharedStore
from traceanalyzer.store.store import Store

# Files by which the traces of a folder are known: their ranks, and their names in an archive.
_ON_CARD = re.compile(r"members\.json|[^/]+/traces\.parquet")


class WorkingCopy(Store):
    """A store whose folders are those of `shared`, under the names that all machines give."""

    shared: SharedStore
    _may_hold_unknown = True

    def __init__(self, folder: Path, shared: SharedStore) -> None:
        super().__init__(folder)
        self.shared = shared
        self._name_key = b""  # it lies in the user's cache, where nobody else plants a folder

    @property
    def place(self) -> Location:
        """What `open_store` opens it by, in this process and in others."""
        return self.shared.location

    def claim_shared(self) -> None:
        """See that the bucket can be used."""
        self.shared.claim()

    def has(self, target: Path) -> bool:
        """Return whether the bucket holds a folder."""
        return self.shared.has(self._name(target))

    def card_folder(self, target: Path) -> Path | None:
        """Return a folder with what tells traces apart, and not all their tables; None where it is damaged."""
        if self.is_here(target):
            return target
        card = self.folder / "cards" / target.name
        return card if self.is_here(card) or self._fetch(target, card, _ON_CARD) else None

    def is_whole(self, target: Path) -> bool:
        """Return whether a folder is here and in the bucket, fetched or published where it was not."""
        if self.is_here(target):
            if not self.has(target):
                self.shared.publish(self._name(target), target)
            return True
        return self.has(target) and self._fetch(target, target)

    def _fetch(self, target: Path, here: Path, only: re.Pattern[str] | None = None) -> bool:
        """Put what is published of a folder `here`; return whether it is there and whole."""
        with self._writer.scratch() as scratch:
            name = self._name(target)
            if not (self.shared.fetch(name, scratch) if only is None else self.shared.fetch(name, scratch, only)):
                return False
            self._writer.put_folder(scratch, here)
        return True

    def _publish(self, scratch: Path, target: Path) -> None:
        """Give a written folder its name, in the bucket first: what was published there before counts."""
        while not self.shared.publish(self._name(target), scratch):
            if self.has(target) and self._fetch(target, target):
                return
        super()._publish(scratch, target)

    def _seen(self, target: Path) -> Path:
        if not self.is_whole(target):
            what = "a worker published this, and it is damaged or gone"
            raise writing.StoreError(what, self.shared.url_of(self._name(target)), "run the command again")
        return target

    def _digest_at_hand(self, source: Path | RemoteObject) -> str | None:
        return None if isinstance(source, Path) else source.digest

    def _share_record(self, file: Path, text: str) -> None:
        self.shared.put_text(self._name(file), text)

    def _shared_record(self, file: Path) -> str | None:
        return self.shared.text(self._name(file))

    def _name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()
