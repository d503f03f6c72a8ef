"""The storage of manifests and tables: a local directory, named by a path or `file://`, or object storage, `s3a://`::

store = open_store("s3a://bucket/snapshots")
store.check_writable()  # before any work starts
with store.staging(id) as folder:  # tables are written here ...
    ...
    store.publish(manifest, folder)  # ... and appear together with their manifest, or not at all

`state_parts` lists the snapshots whose rows make up the state of one, `state_sql` reads them.
"""

from .base import Folder, Leftover, RemoteFolder, Store, manifest_name
from .checked_files import HASHED_BYTES_MAX, require_unaltered
from .duckdb_sql import sql_name, sql_of_files, sql_text
from .integrity import Damage, altered, file_damage
from .local import LocalStore
from .row_digests import row_digest
from .state_chain import chained_sql, places_of, require_same_files, state_parents, state_parts, state_sql
from .uri import lies_in, open_manifest, open_store, read_manifest, refuse_secrets, written_down
