"""JupyterHub's configuration, one for all: the tabletop, a site with Slurm, a machine without.

What differs stands in settings.json, which `make hub` writes (settings.py says what is in it).
"""

import json
import os
import shlex
import sys
from pathlib import Path

from jupyterhub.auth import PAMAuthenticator
from jupyterhub.spawner import LocalProcessSpawner
from jupyterhub.utils import random_port
from tornado import web

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.append(str(ROOT))
from slurm.hub import names, passwords  # noqa: E402  (they need nothing but Python)

SETTINGS = os.environ[names.MARK]
PRIVATE = Path(SETTINGS).parent
PASSWORDS = PRIVATE / "passwords.txt"
HUB = ROOT / ".venv" / "hub"
settings = json.loads(Path(SETTINGS).read_text(encoding="utf-8"))
c = get_config()  # noqa: F821  (JupyterHub brings it)


class OnTheLists(PAMAuthenticator):
    """A site's users on the list log in by the passwords that PAM knows; all others, also the
    instructor of a site, by one of their own, in a file that only the hub reads."""

    async def authenticate(self, handler, data):
        name = data["username"]
        if name in settings["people"]:
            return await super().authenticate(handler, data)
        # PAM is not asked: nobody else's password can be tried out here.
        return name if passwords.matches(PASSWORDS, name, data["password"]) else None

    def system_user_exists(self, user):
        """Whoever is on no list any more leaves the hub's database at its start, and their cookies
        end."""
        return user.name in settings["people"] or user.name in passwords.read(PASSWORDS)


c.JupyterHub.authenticator_class = OnTheLists
c.PAMAuthenticator.service = settings["pam"]
c.Authenticator.allow_all = True  # all whom authenticate() lets through
c.Authenticator.delete_invalid_users = True

# Who reaches what: process.py the proxy, at files of the private folder; notebook servers the hub.
c.JupyterHub.bind_url = f"http+unix://{names.PROXY}"
c.JupyterHub.hub_ip = settings["address"]
# Fixed where servers that are jobs outlive their hub, and a firewall may stand in between.
c.JupyterHub.hub_port = 8081 if settings["site"] else random_port()
# On the hub's own Node: the machine's may be too old, or not there.
c.ConfigurableHTTPProxy.command = [
    str(HUB / "bin" / "node"),
    str(HUB / "node_modules" / ".bin" / "configurable-http-proxy"),
]
c.ConfigurableHTTPProxy.api_url = f"http+unix://{names.PROXY_API}"
c.JupyterHub.db_url = f"sqlite:///{PRIVATE}/jupyterhub.sqlite"
c.JupyterHub.cookie_secret_file = str(PRIVATE / "cookie_secret")


def before_start(spawner):
    """What the hub does before it starts anybody's server.

    JupyterHub takes options from whoever asks for a server, also from a link that somebody follows,
    and batchspawner would put them into the job's script as they are. Nobody chooses anything here.
    """
    spawner.user_options = {}
    spawner.orm_spawner.user_options = {}  # from where the next start would take them
    if is_instructor(spawner.user):
        said = "The instructor has no notebook server here. The class board is at /services/board/."
        refused = web.HTTPError(403, said)
        refused.jupyterhub_message = said  # for the page that waits for a server
        raise refused


def is_instructor(user):
    """Is it who has the class board, and no server? A normal user's hub has no such person."""
    return settings["real_users"] and user.name == names.INSTRUCTOR


def first_page(handler):
    """Where a log-in leads: the instructor to the board; "" is everybody's own server."""
    user = handler.current_user
    return "/services/board/" if user and is_instructor(user) else ""


c.Spawner.pre_spawn_hook = before_start
c.JupyterHub.default_url = first_page

# Whoever logs out ends the job, and when the hub ends, so do all.
c.JupyterHub.shutdown_on_logout = True
c.JupyterHub.cleanup_servers = True

# A learner's server: the shared environment, opened at the first lab in a copy of the learner's
# own.
environment = {
    "LABS_HUB_ROOT": str(ROOT),
    "LABS_HUB_COURSE": str(PRIVATE.parent / "course.bundle"),
    "PATH": f"{os.environ['PATH']}:/usr/bin:/bin",
    "LANG": "C.UTF-8",
}
if settings["site"]:
    environment |= {"LABS_HUB_SLURM": "1", "SITE": settings["site"]}
else:
    environment[names.MARK] = SETTINGS  # by which process.py knows the hub's processes
c.Spawner.notebook_dir = "~/labs"
c.Spawner.default_url = "/lab/tree/work/00_check_environment.ipynb"
c.Spawner.http_timeout = 300  # forty that start at once on a few cores take their time
c.Spawner.start_timeout = 900  # a job may wait for free nodes
session = [str(ROOT / ".venv" / "bin" / "python"), str(HERE / "session.py")]

if settings["real_users"]:  # the class board, a page for the instructor alone
    class_folder = str(PRIVATE.parent / "class")
    environment["LABKIT_CLASS"] = class_folder
    board = PRIVATE.parent / "board"
    c.JupyterHub.services = [
        {
            "name": "board",
            "url": f"http://127.0.0.1:{os.environ['LABS_HUB_BOARD_PORT']}",  # process.py listens
            "command": [sys.executable, "-m", "classroom", class_folder],
            "cwd": str(board),
            "environment": {
                "PYTHONPATH": str(ROOT / "labs"),
                "LABKIT_BOARD_SOCKET": Path(names.BOARD).name,
                "LABKIT_HOME": str(board),
                names.MARK: SETTINGS,
            },
            "user": names.BOARD_USER,  # it reads what anybody may have written
            "oauth_no_confirm": True,
        }
    ]
    scopes = ["access:services!service=board"]
    c.JupyterHub.load_roles = [
        {"name": "instructors", "users": [names.INSTRUCTOR], "scopes": scopes}
    ]
c.Spawner.environment = environment

# What squeue says in vain, or of a job that neither runs nor waits and has not ended (SUSPENDED).
NOT_KNOWN_TO_HAVE_ENDED = (
    r"(?s)^(?!.*Invalid job id)"
    r"(?!BOOT_FAIL|CANCELLED|COMPLETED|DEADLINE|FAILED|NODE_FAIL|OUT_OF_MEMORY)"
    r"(?!PREEMPTED|REVOKED|TIMEOUT)."
)

if settings["site"]:
    import batchspawner
    from jupyterhub.apihandlers import APIHandler

    def port_alone(handler):
        """What a server tells the hub about itself: its port.

        batchspawner would set whatever attribute of the spawner a learner's program names, also the
        commands that the hub runs in a shell, as root.
        """
        told = APIHandler.get_json_body(handler)
        port = told.get("port") if isinstance(told, dict) else None
        if type(port) is not int or not 1024 <= port <= 65535:
            raise web.HTTPError(
                400, "A server tells its port, from 1024 to 65535, and nothing else."
            )
        return {"port": port}

    batchspawner.api.BatchSpawnerAPIHandler.get_json_body = port_alone

    class Job(batchspawner.SlurmSpawner):
        """A server's job. It has ended when Slurm says so: an error says nothing about it."""

        async def run_command(self, cmd, input=None, env=None):
            try:
                return await super().run_command(cmd, input, env)
            except (RuntimeError, OSError) as error:
                raise RuntimeError(str(error) or "no message") from error

    c.JupyterHub.spawner_class = Job
    c.SlurmSpawner.state_unknown_re = NOT_KNOWN_TO_HAVE_ENDED
    c.BatchSpawnerBase.exec_prefix = "runuser -u {username} --" if settings["real_users"] else ""
    c.BatchSpawnerBase.batchspawner_singleuser_cmd = ""  # session.py does what it is for
    c.Spawner.cmd = [shlex.quote(word) for word in session]  # it becomes a line of job.sh
    c.BatchSpawnerBase.startup_poll_interval = 1.0
    c.SlurmSpawner.batch_script = (HERE / "job.sh").read_text(encoding="utf-8")
    c.SlurmSpawner.req_options = "\n".join(f"#SBATCH {option}" for option in settings["job"])
else:

    class Process(LocalProcessSpawner):
        """A server's process, which ends with its hub: the next one takes none over by its number.

        JupyterHub would end whatever has that number by then.
        """

        def load_state(self, state):
            super().load_state({name: value for name, value in state.items() if name != "pid"})

    c.JupyterHub.spawner_class = Process
    c.Spawner.cmd = session
