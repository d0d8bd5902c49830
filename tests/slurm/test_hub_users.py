"""Who a hub's users are: a site's, whom it only lets in, and those that it makes and removes."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from labkit import paths

from slurm.hub import people
from tests import eavesdropper
from tests.helpers import program
from tests.slurm.hub_client import Learner
from tests.slurm.own_machine import OwnMachine, free_port, needs_root, needs_slurm
from tests.slurm.test_hub import (
    assert_a_link_clones_nothing_and_the_token_stays,
    install,
    passwords,
)

# A second source of users besides /etc/passwd, as LDAP or SSSD are one: Debian's libnss-extrausers.
USERS = Path("/var/lib/extrausers")
NAMES = ("ada", "grace", "eve")
DIRECTORY = r"""
for name in "$@"; do
    useradd --create-home --user-group --shell /bin/bash "$name"
    echo "$name:the password of $name" | chpasswd --crypt-method SHA512
done
for file in passwd group shadow; do
    grep -E "^($(IFS='|'; echo "$*")):" /etc/$file >/var/lib/extrausers/$file
    sed --in-place --regexp-extended "/^($(IFS='|'; echo "$*")):/d" /etc/$file
    sed --in-place --regexp-extended "s/^$file:.*/$file: files extrausers/" /etc/nsswitch.conf
done
chmod 755 /home/ada
chmod 700 /home/grace /home/eve
"""

# Users with a process that would go on for long: userdel alone refuses.
BUSY = r"""
for name in ada grace; do
    runuser -u $name -- setsid sleep 300 &
    until pgrep --uid $name sleep >/dev/null; do sleep 0.05; done
done
! userdel ada || exit 3
"$1" -m slurm.hub forget
! pgrep --uid "$2,$3"
"""

pytestmark = [needs_root, pytest.mark.slow, pytest.mark.timeout(900)]
needs_directory = pytest.mark.skipif(
    not USERS.is_dir() and not os.environ.get("CI"), reason="needs Debian's libnss-extrausers"
)


class Site(OwnMachine):
    """A machine whose users ada, grace and eve are in a directory, with a site file "here"."""

    def __init__(self):
        super().__init__()
        (self.folder / "extrausers").mkdir()
        folder = paths.root() / "slurm" / "sites"
        shutil.copytree(folder, self.folder / "sites")
        tabletop = (folder / "tabletop.sh").read_text(encoding="utf-8")
        text = tabletop.replace("SITE=tabletop", "SITE=here LABKIT_HUB_PAM=login")
        (self.folder / "sites" / "here.sh").write_text(text, encoding="utf-8")
        with (self.folder / "mounts").open("a", encoding="utf-8") as mounts:
            mounts.write(
                f"{self.folder / 'extrausers'} {USERS}\n{self.folder / 'sites'} {folder}\n"
            )
        done = self.run("bash", "-ec", DIRECTORY, "bash", *NAMES)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def site():
    with Site() as made:
        yield made


@pytest.fixture
def machine():
    with OwnMachine() as made:
        yield made
        made.end()


@needs_directory
def test_who_cannot_work_is_named_with_the_reason(site):
    """Each of them, before anything is started."""
    (site.folder / "home" / "grace" / "labs").mkdir()
    (site.folder / "home" / "eve").chmod(0o757)
    up = ["up", "--site", "here", "--port", str(free_port())]
    done = site.hub(*up, "--names", "ada grace eve nobody-here root")
    assert done.returncode == 1
    for said in (
        "grace: /home/grace/labs is there already and no copy of the course",
        "eve: everybody can write into the home /home/eve (mode 757)",
        "nobody-here: this machine knows no such user",
        "root: is root",
    ):
        assert said in done.stderr
    assert "ada:" not in done.stderr
    shutil.rmtree(site.folder / "home" / "eve")
    assert "eve: the home /home/eve does not exist" in site.hub(*up, "--names", "eve").stderr
    assert "ada is on this machine already" in site.hub("up", "--plain", "--names", "ada").stderr


def test_all_who_cannot_be_made_are_named_before_anything_starts(machine):
    assert machine.run("groupadd", "zoe").returncode == 0
    (machine.folder / "home" / "eve").mkdir()
    done = machine.hub("up", "--names", "ada zoe eve daemon", "--port", str(free_port()))
    assert done.returncode == 1
    assert "zoe is a group of this machine" in done.stderr
    assert "/home/eve exists, but no user eve" in done.stderr
    assert "daemon is on this machine already" in done.stderr
    assert "ada " not in done.stderr
    assert "\nada:" not in (machine.folder / "etc" / "passwd").read_text(encoding="utf-8")
    assert not (machine.home / "tabletop").exists()
    assert machine.run("useradd", "instructor").returncode == 0
    done = machine.hub("up", "--plain", "--names", "ada", "--port", str(free_port()))
    assert (done.returncode, "This machine has a user instructor" in done.stderr) == (1, True)
    assert "\nada:" not in (machine.folder / "etc" / "passwd").read_text(encoding="utf-8")


@needs_directory
@needs_slurm
def test_a_sites_users_log_in_with_its_passwords(site):
    install(site)
    up = site.tabletop("up", "--nodes", "1")
    assert up.returncode == 0, up.stderr
    commands = site.home / "tabletop" / "table" / "bin"
    enter = [str(commands / "tabletop-enter"), "env", f"PATH={commands}:{os.environ['PATH']}"]
    try:
        done = site.run(*enter, sys.executable, "-m", "tests.slurm.hub_at_site", str(free_port()))
    finally:
        site.tabletop("down")
    log = site.home / "hub" / "private" / "hub.log"
    text = log.read_text(encoding="utf-8")[-3000:] if log.exists() else ""
    assert done.returncode == 0, done.stderr + text
    facts = json.loads(done.stdout)
    said = facts.pop("said")
    assert "on the site here, for 2 people" in said
    assert "log in with the site's passwords" in said
    assert "Other users can look into the homes of: ada." in said
    assert facts.pop("ada's cookie").startswith("/hub/login")
    assert "make hub-forget" not in facts.pop("down")
    assert "made no users" in facts.pop("forget")
    refused = dict.fromkeys((f"{name}, refused" for name in ("grace", "eve", "root", "ada")), True)
    assert facts == refused | {
        "words": ["instructor"],
        "instructor": True,
        "board": 200,
        "ada": True,
        "cell": ["ada", "True", "/home/ada", "755", "700", "600", "True"],
        "queue": ["ada", "labs-hub"],
        "afterwards": [],
        "grace": True,
    }
    assert (site.folder / "home" / "ada" / "labs" / "notebooks").is_dir(), "the work stays"


def test_users_with_processes_are_removed_too(machine):
    assert machine.run(sys.executable, "-c", ADD, "ada", "grace").returncode == 0
    numbers = [str((machine.folder / "home" / name).stat().st_uid) for name in ("ada", "grace")]
    done = machine.run("bash", "-ec", BUSY, "bash", sys.executable, *numbers)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("Removed with their homes: ada, grace.\n"), done.stderr
    assert not (machine.folder / "home" / "ada").exists()


ADD = "import sys; from slurm.hub import people; people.add(sys.argv[1:])"

# Programs that say what they have of root's terminal, where root runs them as a learner.
SPY = """\
#!/bin/bash
if ((UID)); then
    read -r pid _ _ _ _ session terminal _ </proc/$$/stat
    for stream in 0 1 2; do [[ ! -t $stream ]] || terminal+=" $stream"; done
    echo "${0##*/} $((pid == session)) $terminal" >>SEEN
fi
[[ $0 != */sh ]] || exec /bin/bash --posix "$@"
"""
CALLS = """
from pathlib import Path
from slurm.hub import people

people.add(["ada"])
people.check_at_site(["ada"])
people.check_reach(Path("/etc/hosts"), "ada")
people.remove()
"""


def test_what_root_runs_as_a_learner_has_no_terminal(machine):
    """Whatever else that learner runs could type into it, and so into root's shell."""
    seen, spy = machine.folder / "seen", machine.folder / "spy"
    seen.touch()
    seen.chmod(0o666)
    spy.write_text(SPY.replace("SEEN", str(seen)), encoding="utf-8")
    spy.chmod(0o755)
    script = 'for tool in dash test; do mount --bind "$0" /usr/bin/$tool; done; exec "$@"'
    inner = machine.command("bash", "-ec", script, str(spy), sys.executable, "-c", CALLS)
    leader, terminal = pty.openpty()
    env = {**os.environ, "LABKIT_HOME": str(machine.home)}
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), terminal)
    command = ["setsid", "--wait", "--ctty", *inner]
    done = subprocess.run(command, env=env, timeout=200, check=False, **streams)
    os.close(terminal)
    assert done.returncode == 0, os.read(leader, 9999)
    os.close(leader)
    # its program, whether it has a session of its own, its terminal's number, streams that are one
    assert seen.read_text(encoding="utf-8").splitlines() == ["sh 1 0", "test 1 0", "sh 1 0"]


# What ada leaves for whoever gets her number next, and what is none of hers.
LEAVES = """
ada() { setpriv --reuid=ada --regid=ada --clear-groups -- "$@"; }
ada bash -ec 'cp /bin/bash /var/tmp/.x; chmod u+s /var/tmp/.x; touch /dev/shm/x'
ada bash -ec 'mkdir -p /var/tmp/a/b; cd /var/tmp/a; touch b/x; ln -s /etc etc; mkfifo fifo'
ada bash -ec 'mkdir /var/tmp/both; chmod 777 /var/tmp/both; touch /var/tmp/both/x'
touch /var/tmp/roots
setpriv --reuid=61234 --regid=61234 --clear-groups touch /var/tmp/both/anothers
mkdir -p /var/spool/cron/crontabs /var/spool/cron/atjobs
install --owner=ada --mode=600 /dev/null /var/spool/cron/crontabs/ada
install --owner=ada --mode=700 /dev/null /var/spool/cron/atjobs/a0001
"""


def test_the_next_class_inherits_no_file_and_no_number(machine):
    machine.cover("/var/tmp", "/var/spool", "/dev/shm")

    def add(*names: str) -> list[int]:
        done = machine.run(sys.executable, "-c", ADD, *names)
        assert done.returncode == 0, done.stderr
        return [(machine.folder / "home" / name).stat().st_uid for name in names]

    (first,) = add("ada")
    done = machine.run("bash", "-ec", LEAVES)
    assert done.returncode == 0, done.stderr
    assert machine.hub("forget").returncode == 0
    files = machine.run("find", "/var/tmp", "/var/spool", "/dev/shm", "-not", "-type", "d")
    assert sorted(files.stdout.split()) == ["/var/tmp/both/anothers", "/var/tmp/roots"]
    second, third = add("ada", "bob")
    assert first < second < third
    assert machine.run("userdel", "--remove", "bob").returncode == 0  # by hand
    assert add("eve")[0] > third
    assert "eve" not in (machine.folder / "etc" / "subuid").read_text(encoding="utf-8")


def test_answers_that_learners_can_read_are_named_with_the_cure(monkeypatch):
    root = Path(tempfile.mkdtemp(prefix="answers-"))
    try:
        root.chmod(0o755)
        monkeypatch.setattr(paths, "root", lambda: root)
        assert people.open_answers() == []  # a learners' archive has none
        for name in (
            "book/index.html",
            "report/40_lab.html",
            "solutions/40_lab.py",
            "solutions/results/40_lab.json",
            "tests/test_labs.py",
        ):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).touch()
        [said] = people.open_answers()
        assert said.startswith(f"Learners can read book, report, solutions, tests in {root}.")
        subprocess.run(["bash", "-ec", said.partition("There, type: ")[2]], cwd=root, check=True)
        assert people.open_answers() == []
        results = str(root / "solutions/results/40_lab.json")
        assert people.run_as("nobody", "test", "-r", results).returncode == 0
    finally:
        shutil.rmtree(root)


def leads_to(learner: Learner, path: str = "/hub/home") -> str:
    """Where the hub sends this browser from there; "" where it shows the page."""
    answer = learner.session.get(f"{learner.address}{path}", allow_redirects=False, timeout=60)
    return answer.headers.get("Location", "").partition("?")[0]


def test_two_classes_on_one_machine_without_slurm(machine, tmp_path):
    """Servers are processes of their users, the proxy runs on the hub's own Node, and the
    instructor has the board alone. Cookies of who is gone open nothing to the next class, nor does
    what the board was shown."""
    install(machine)
    for name in ("node", "npm"):
        program(tmp_path / name, "exit 1")
    port = str(free_port())
    up = ["up", "--plain", "--port", port, "--names"]
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = machine.run(sys.executable, "-m", "slurm.hub", *up, "ada grace", PATH=path)
    assert done.returncode == 0, done.stderr
    assert "without Slurm, for 2 people" in done.stdout
    words = passwords(machine)
    people = {name: Learner(f"http://127.0.0.1:{port}", name, words[name]) for name in words}
    assert all(person.log_in() for person in people.values())
    ada, teacher = people["ada"], people["instructor"]
    assert leads_to(teacher, "/hub/") == "/services/board/"
    assert leads_to(teacher, "/hub/login") == "/services/board/"
    assert teacher.session.get(f"{teacher.address}/", timeout=60).url.endswith("/services/board/")
    refused = teacher.session.get(f"{teacher.address}/hub/spawn/instructor", timeout=60)
    assert "The instructor has no notebook server here" in refused.text
    assert leads_to(ada, "/hub/") == "/hub/spawn"
    ada.start()
    kernel = ada.kernel()
    cell = "import getpass, os; print(getpass.getuser(), os.geteuid() > 0, 'SLURM_JOB_ID' in "
    assert kernel.run(f"{cell}os.environ)").split() == ["ada", "True", "False"]
    where = kernel.run("import ipykernel; print(ipykernel.get_connection_file())").strip()
    assert not eavesdropper.overheard(machine.folder / where.lstrip("/"))
    assert_a_link_clones_nothing_and_the_token_stays(
        machine, ada, machine.home / "hub/private/hub.log"
    )
    shared = machine.home / "hub" / "class" / "ada.jsonl"
    shared.write_text('{"labkit": "shared"}\n', encoding="utf-8")

    assert machine.hub("down").returncode == 0
    assert machine.run("userdel", "--remove", "grace").returncode == 0
    assert machine.hub(*up, "ada").returncode == 0
    assert leads_to(ada) == ""
    assert leads_to(people["grace"]) == "/hub/login", "she is no user any more"
    assert machine.hub("down").returncode == 0

    assert "Removed with their homes: ada." in machine.hub("forget").stdout
    assert not (machine.folder / "home" / "ada").exists()
    assert not shared.parent.exists()
    assert machine.hub(*up, "ada").returncode == 0
    assert shared.parent.is_dir()
    assert leads_to(ada) == "/hub/login", "it is another ada"
