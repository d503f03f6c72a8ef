"""The storage of manifests and tables: a directory, named by a path or `file://`, or object storage, `s3://`::

store = open_store("s3://bucket/snapshots")
store.check_writable()  # before any work starts
with store.staging(id) as folder:  # tables are written here ...
    ...
    store.publish(manifest, folder)  # ... and appear together with their manifest, or not at all

`state_parents` lists the snapshots on which one builds, `chained_sql` reads the state of all.
"""

from .database import sql_name, sql_of_files, sql_text
from .integrity import (
    altered,
    chained_sql,
    file_damage,
    places_of,
    require_state,
    state_parents,
)
from .local_files import LocalFiles
from .store import LEFTOVER_AFTER_S, Damage, Leftover, Store, manifest_name
from .uri import lies_in, open_manifest, open_store, read_manifest, written_down
