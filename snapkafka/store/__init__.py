"""Where manifests and tables lie: a local directory, given as a path or as `file://`::

store = open_store("file:///var/lib/snapshots")
store.check_writable()  # before any work starts
with store.staging(id) as folder:  # tables are written here ...
    ...
    store.publish(manifest, folder)  # ... and appear together with their manifest, or not at all

`state_parts` says which snapshots' rows make up the state of one, `state_sql` how to read them.
"""

from .chains import state_parents, state_parts, state_sql
from .local import LocalStore, open_store

__all__ = ["LocalStore", "open_store", "state_parents", "state_parts", "state_sql"]
