"""The service: REST, live progress and the page, for people and programs that do not run the command.

| module | content |
|---|---|
| `settings` | its settings: one value, checked as a whole |
| `access` | authorization: tokens, roles, storage roots |
| `guard` | host, origin and token of every request, before a route sees it |
| `problems` | errors as problem+json: statuses, fields, routes |
| `requests` | JSON and query strings as typed values, by msgspec |
| `rows` | snapshots as `ops` describes them, with the numbers of their manifests |
| `routes`, `live`, `jobs` | the verbs; server-sent events; assembly in the background |
| `api`, `views` | the routes as values, made from the signatures of `routes`; the OpenAPI document; their answers |
| `app`, `server` | all of it as one ASGI application, and uvicorn with its bounds |

It is stateless: it folds the ledger (`ledger_follower`) and reads storage, so any number of instances give the same
answers, and an instance that is killed loses nothing except the assembly that it was running.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapkafka.lazy import lazily

if TYPE_CHECKING:
    from .access import Tokens
    from .app import make_app
    from .ledger_follower import LedgerFollower
    from .routes import ROUTES, document
    from .server import serve
    from .settings import Settings
else:
    __getattr__ = lazily(__name__)
