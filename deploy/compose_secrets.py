"""Makes the secrets that ``docker-compose.yml`` names: ``python deploy/compose_secrets.py [FOLDER]``.

An admin key, a worker key, and a user of Redis who may do what Gradmill does and no more. What is there is
kept. The folder is its owner's alone; its files can be read by all, since each container has its own user.
"""

from __future__ import annotations

import hashlib
import secrets
import sys
from pathlib import Path

USER_RIGHTS = "resetchannels ~gradmill:* +@all -@admin -@dangerous +info"


def contents(host: str) -> dict[str, str]:
    """Fresh secrets by file name, for a Redis that is called ``host``."""
    admin, worker, password = (secrets.token_hex(32) for _ in range(3))
    return {
        "api_keys": f"key_admin_{admin}\nkey_worker_{worker} worker\n",
        "worker_key": f"key_worker_{worker}\n",
        "redis_url": f"redis://gradmill:{password}@{host}:6379/0\n",
        "redis.acl": (
            "user default on nopass resetkeys resetchannels -@all +ping\n"
            f"user gradmill on #{hashlib.sha256(password.encode()).hexdigest()} {USER_RIGHTS}\n"
        ),
    }


def write(folder: Path, host: str = "redis") -> bool:
    """Writes the secrets into a new folder; False when it is there."""
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        return False
    for name, content in contents(host).items():
        (folder / name).write_text(content)
        (folder / name).chmod(0o444)
    return True


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "secrets")
    made = write(target)
    print(f"{target}: {'made' if made else 'there already'}; the first key of api_keys is the admin's")
