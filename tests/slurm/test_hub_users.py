"""Who a hub's users are: a site's, whom it only lets in, and those that it makes and removes."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from labkit import paths
from labkit.errors import LabError

from slurm.hub import settings, site_users
from tests.slurm.hub_client import Learner
from tests.slurm.normal_user import needs_slurm
from tests.slurm.own_machine import OwnMachine
from tests.slurm.test_hub import install, passwords

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

# A user with a process, which ends once userdel has refused for the first time.
BUSY = r"""
runuser -u ada -- sleep 300 &
cat >"$LABKIT_HOME/userdel" <<END
#!/bin/sh
/usr/sbin/userdel "\$@"
status=\$?
echo \$status >>"$LABKIT_HOME/tried"
kill $! 2>/dev/null
exit \$status
END
chmod 755 "$LABKIT_HOME/userdel"
until pgrep --uid ada sleep >/dev/null; do sleep 0.05; done
PATH=$LABKIT_HOME:$PATH "$1" -m slurm.hub forget
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make users")
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
        lines = f'export LABKIT_HUB_ADDRESS={settings.TABLETOP_ADDRESS} LABKIT_HUB_PAM="login"\n'
        text = tabletop.replace("SITE=tabletop", "SITE=here") + lines
        (self.folder / "sites" / "here.sh").write_text(text, encoding="utf-8")
        with (self.folder / "mounts").open("a", encoding="utf-8") as mounts:
            mounts.write(f"{self.folder / 'extrausers'} {USERS}\n{self.folder / 'sites'} {folder}\n")
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
        made.hub("down")


@needs_root
@needs_directory
@pytest.mark.slow
def test_who_cannot_work_is_named_with_the_reason(site):
    """Each of them, before anything is started."""
    (site.folder / "home" / "grace" / "labs").mkdir()
    (site.folder / "home" / "eve").chmod(0o757)
    up = ["up", "--site", "here", "--port", str(settings.free_port())]
    done = site.hub(*up, "--names", "ada grace eve nobody-here root")
    assert done.returncode == 1
    assert "grace: /home/grace/labs is there already and no copy of the course" in done.stderr
    assert "eve: everybody can write into the home /home/eve (mode 757)" in done.stderr
    assert "nobody-here: this machine knows no such user" in done.stderr
    assert "root: is root" in done.stderr
    assert "ada:" not in done.stderr
    shutil.rmtree(site.folder / "home" / "eve")
    assert "eve: the home /home/eve does not exist" in site.hub(*up, "--names", "eve").stderr
    assert (
        "no service 'no-such'"
        in site.run(
            sys.executable, "-c", "from slurm.hub import site_users as s; s.check_pam('no-such', 'here')"
        ).stderr
    )
    assert "ada is on this machine already" in site.hub("up", "--plain", "--names", "ada").stderr


@needs_root
@needs_directory
@needs_slurm
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_sites_users_log_in_with_its_passwords(site):
    install(site)
    up = site.tabletop("up", "--nodes", "1")
    assert up.returncode == 0, up.stderr
    commands = site.home / "tabletop" / "table" / "bin"
    enter = [str(commands / "tabletop-enter"), "env", f"PATH={commands}:{os.environ['PATH']}"]
    try:
        done = site.run(*enter, sys.executable, "-m", "tests.slurm.hub_at_site", str(settings.free_port()))
    finally:
        site.tabletop("down")
    log = site.home / "hub" / "private" / "hub.log"
    assert done.returncode == 0, done.stderr + (
        log.read_text(encoding="utf-8")[-3000:] if log.exists() else ""
    )
    facts = json.loads(done.stdout)
    said = facts.pop("said")
    assert "on the site here, for 2 people" in said
    assert "log in with the site's passwords" in said
    assert "Other users can look into the homes of: ada." in said
    assert facts.pop("words") == ["instructor"]
    assert facts.pop("board") == 200
    assert facts.pop("cell") == ["ada", "True", "/home/ada", "755", "700", "600", "True"]
    assert facts.pop("queue") == ["ada", "labs-hub"]
    assert facts.pop("afterwards") == []
    assert facts.pop("ada's cookie").startswith("/hub/login")
    assert "make hub-forget" not in facts.pop("down")
    assert "made no users" in facts.pop("forget")
    assert facts == {
        "instructor": True,
        "ada": True,
        "grace, refused": True,
        "eve, refused": True,
        "root, refused": True,
        "ada, refused": True,
        "grace": True,
    }
    assert (site.folder / "home" / "ada" / "labs" / "notebooks").is_dir(), "the work stays"


def test_names_of_a_sites_users():
    assert site_users.names_of("", "j.doe s1234  j.doe a@x.org") == ["j.doe", "s1234", "a@x.org"]
    for count, names in (("40", "ada"), ("", ""), ("", "Ada"), ("", "a;b"), ("", "instructor"), ("", "-x")):
        with pytest.raises(LabError, match="NAMES"):
            site_users.names_of(count, names)


@needs_root
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_without_slurm_and_without_a_node_of_the_machines(machine, tmp_path):
    """As root, PLAIN=1: servers are processes of their users; the proxy runs on the hub's own Node."""
    for name in ("node", "npm"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    install(machine)
    port = settings.free_port()
    path = f"{tmp_path}:{os.environ['PATH']}"
    up = [sys.executable, "-m", "slurm.hub", "up", "--plain", "--names", "ada", "--port", str(port)]
    done = machine.run(*up, PATH=path)
    assert done.returncode == 0, done.stderr
    assert "without Slurm, for 1 person" in done.stdout
    learner = Learner(f"http://127.0.0.1:{port}", "ada", passwords(machine)["ada"])
    assert learner.log_in()
    learner.start()
    cell = "import getpass, os; print(getpass.getuser(), os.geteuid() > 0, 'SLURM_JOB_ID' in os.environ)"
    assert learner.kernel().run(cell).split() == ["ada", "True", "False"]
    assert machine.hub("down").returncode == 0
    assert "Removed with their homes: ada." in machine.hub("forget").stdout
    assert not (machine.folder / "home" / "ada").exists()


@needs_root
@pytest.mark.slow
def test_a_user_whose_process_is_about_to_end_is_removed_too(machine):
    made = "from slurm.hub import learners; learners.add(['ada'])"
    assert machine.run(sys.executable, "-c", made).returncode == 0
    done = machine.run("bash", "-ec", BUSY, "bash", sys.executable)
    assert done.stdout.endswith("Removed with their homes: ada.\n"), done.stderr
    tried = (machine.home / "tried").read_text(encoding="utf-8").split()
    assert tried[0] != "0", "userdel refuses while a process runs"
    assert tried[-1] == "0"
    assert not (machine.folder / "home" / "ada").exists()
