"""support.lab41: what its checks try on ranks, a rank alone, crowded cores, and what is shown."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from labkit import lab, launch, noise, timing
from labkit.errors import LabError
from support import lab41
from support.lab41.resnet import Place, place

OWN = Place(nodes=1, ranks=2, kind="cores", units=2, crowd=1.0)
CROWDED = Place(nodes=2, ranks=8, kind="cores", units=4, crowd=2.0)


def facts(place=OWN) -> dict:
    seconds = {"alone": 0.5, "side by side": 0.55, "together": 0.625}
    times = {name: timing.Measurement(np.full(5, value)) for name, value in seconds.items()}
    fields = {"network": "ResNet50", "side": 64, "images": 10, "gradient_bytes": 4, "rate": 32.0}
    fields |= {"device": "cpu", "staged": "no", "library": "MPI", "place": place}
    return fields | {"times": times}


@pytest.fixture
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path))
    lab.start("41_horovod_tensorflow")
    return tmp_path


def written(home) -> list[dict]:
    lines = (home / "records" / "41_horovod_tensorflow.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_plans_as_text():
    assert lab41.as_text([[6, 8], [6, 2], [6, 2]]) == "rank 0: 6, then 8; ranks 1, 2: 6, then 2"
    assert lab41.as_text([[], []]) == "ranks 0, 1: none"


def test_suspects():
    right = [2.0, 1.0, 0.5]
    assert lab41.suspect(right, right) == ""
    assert "41.1" in lab41.suspect([2.1, 1.0, 0.5], right)
    assert lab41.suspect([2.0, 1.1, 0.5], right).startswith("loss 2 is the first that differs: the update")


def test_crowding():
    assert lab41.crowding(OWN) == "2 ranks on 2 cores: none has to share."
    assert "8 ranks on 4 cores, up to 2 on each: they take turns" in lab41.crowding(CROWDED)


def test_one_record_for_a_study(home):
    lab41.keep(facts(CROWDED))
    (entry,) = written(home)
    assert entry["result"] == "weak"
    assert (entry["ranks"], entry["nodes"], entry["crowd"]) == (8, 2, 2.0)
    assert (entry["seconds"], entry["alone"], entry["side_by_side"]) == (0.625, 0.5, 0.55)
    assert entry["efficiency"] == 0.8
    assert (entry["device"], entry["staged"], entry["library"]) == ("cpu", "no", "MPI")


def test_plots_of_rates_and_ways(home, capsys):
    figure = lab41.show_rates(facts(CROWDED))
    title = figure.axes[0].get_title(loc="left")
    assert title.startswith("ResNet50: what ranks lose")
    assert title.endswith("(2 of them on each of the cores)")
    heights = [bar.get_height() for bar in figure.axes[0].patches]
    np.testing.assert_allclose(heights, [20.0, 128.0, 80 / 0.55, 160.0])
    lab41.show_ways({"2 ranks × 1 thread": facts(), "1 rank × 2 threads": facts()})
    assert "2 ranks × 1 thread" in capsys.readouterr().out
    assert [entry["result"] for entry in written(home)] == ["threads", "threads"]
    assert "seconds" not in written(home)[0], "a study would take it for a result by ranks"


def rank_0_works(comm):
    from support import lab41

    done = []

    def work():
        time.sleep(0.3)
        done.append(comm.rank)

    comm.Barrier()  # a rank that comes late waits for less
    begin = time.perf_counter()
    lab41.on_rank_0(comm, work)()
    return done, time.perf_counter() - begin


def test_rank_0_works_and_the_others_wait_for_it():
    results = launch.run(rank_0_works, ranks=3, timeout=60)
    assert [done for done, _ in results] == [[0], [], []]
    assert min(waited for _, waited in results) > 0.25


class Ranks:
    """A communicator's allgather of places that are given."""

    def __init__(self, places):
        self.places = places
        self.size = len(places)

    def allgather(self, own):
        return self.places


@pytest.mark.parametrize(
    ("places", "want"),
    [
        ([("a", (0,), 0), ("a", (1,), 0)], Place(1, 2, "cores", 2, 1.0)),
        ([("a", (0, 1), 0)] * 4, Place(1, 4, "cores", 2, 2.0)),
        ([("a", (0, 1), 0), ("b", (0, 1), 0)], Place(2, 2, "cores", 4, 1.0)),
        ([("a", (0,), 2), ("a", (1,), 2), ("b", (0,), 2)], Place(2, 3, "GPUs", 4, 1.0)),
        ([("a", (0,), 1), ("a", (1,), 1)], Place(1, 2, "GPUs", 1, 2.0)),
    ],
)
def test_who_shares_what(places, want):
    gpus = places[0][2]
    assert place(Ranks(places), gpus) == want


def tell(begin):
    devices = lab41.Devices(begin)
    return devices.visible, devices.growing


@pytest.mark.slow
def test_gpus_that_are_made_up():
    noise.silence()
    import tensorflow as tf

    before = tf.config.set_visible_devices, tf.config.experimental.set_memory_growth

    def as_the_guide_does(gpus):
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
        tf.config.experimental.set_visible_devices(gpus[1], "GPU")

    assert tell(as_the_guide_does) == (["GPU 1"], ["GPU 0", "GPU 1"])
    assert tell(lambda gpus: tf.config.set_visible_devices(gpus[:1], "GPU")) == (["GPU 0"], [])
    assert tell(lambda gpus: None) == ([], [])
    assert before == (tf.config.set_visible_devices, tf.config.experimental.set_memory_growth)


@pytest.mark.slow
def test_a_network_of_keras():
    noise.silence()
    net, pictures, labels = lab41.network("MobileNet", side=32, images=3)
    assert net(pictures[:1]).shape == (1, 1000)
    assert pictures.shape == (3, 32, 32, 3)
    assert labels.shape == (3,)
    np.testing.assert_array_equal(labels, lab41.network("MobileNet", side=32, images=3)[2])
    with pytest.raises(LabError, match="has no net 'ResNet5'. It has .*ResNet50"):
        lab41.network("ResNet5", side=32, images=3)


def fit_by_oneself():
    import horovod.tensorflow as hvd
    import keras
    from labkit import data, nets
    from support import lab41

    hvd.init()
    digits = data.digits()
    net = nets.keras_digits(nets.start_weights(seed=hvd.rank()))
    net.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    seen = lab41.steps_seen()
    part = {"x": digits.train_x[:64], "y": digits.train_y[:64], "batch_size": 32, "epochs": 2}
    history = net.fit(**part, callbacks=[seen], verbose=0, shuffle=False).history["loss"]
    with lab41.on_a_node(local_rank=5, local_size=6):
        numbers = hvd.local_rank(), hvd.local_size()
    return history, seen.steps, seen.losses(), seen.unequal(), numbers, hvd.local_rank() != 5


@pytest.mark.slow
def test_steps_of_fit_as_seen_by_a_callback():
    results = launch.run(fit_by_oneself, ranks=2, timeout=120)
    mean = np.mean([history for history, *_ in results], axis=0)
    for _, steps, losses, unequal, numbers, restored in results:
        assert steps == 4
        np.testing.assert_allclose(np.reshape(losses, (2, 2)).mean(axis=1), mean, rtol=1e-5)
        assert unequal == [True] * 4
        assert numbers == (5, 6)
        assert restored
