"""A storage in a directory into which a test looks."""

from pathlib import Path

from snapkafka.store import LocalFiles, Store, manifest_name


class LocalStore(Store):
    """Snapshots below `root`."""

    def __init__(self, root: Path) -> None:
        super().__init__(LocalFiles(root))
        self.root = root.absolute()

    def manifest_path(self, snapshot_id: str) -> Path:
        return self.root / manifest_name(snapshot_id)
