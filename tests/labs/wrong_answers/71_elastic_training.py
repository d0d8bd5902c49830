"""Mistakes of learners in lab 71: exercise, mistake, what is replaced, by what, a phrase of the rejection."""

from tests.labs.wrong_answers import Wrong

SMALL = {}

_FAILED = "        except HorovodInternalError:\n            state.restore()\n"
_UPDATED = "        except HostsUpdatedInterrupt:\n            state.save()\n"

# fmt: off
WRONG = [
    Wrong("71.1", "no restore", "state.restore()", "pass", "steps that the net has done"),
    Wrong("71.1", "no save, as Horovod's own", "state.save()", "pass", "`sync` mixes the two"),
    Wrong("71.1", "restore for a newcomer", "state.save()", "state.restore()", "a newcomer none"),
    Wrong("71.1", "save after a failure", "state.restore()", "state.save()", "steps that the net has done"),
    Wrong("71.1", "both the wrong way round", [_FAILED, _UPDATED],
          [_FAILED.replace("restore", "save"), _UPDATED.replace("save", "restore")],
          "steps that the net has done"),
    Wrong("71.1", "no meeting", "\n        meet()", "", "without `meet()`"),
    Wrong("71.1", "sync once, before the loop", ["    while True:\n", "            state.sync()\n"],
          ["    state.sync()\n    while True:\n", ""], "`sync` is missing"),
    Wrong("71.1", "sync before the meeting", ["            state.sync()\n", "\n        meet()"],
          ["", "\n        state.sync()\n        meet()"], "`sync` is missing"),
    Wrong("71.1", "sync outside of try", "        try:\n            state.sync()\n",
          "        state.sync()\n        try:\n", "another while the state is sent"),
    Wrong("71.1", "a newcomer is not caught", _UPDATED, "", "HostsUpdatedInterrupt"),
    Wrong("71.1", "a failure is not caught", _FAILED, "", "HorovodInternalError"),
    Wrong("71.1", "every exception is a failure", "except HorovodInternalError:",
          "except Exception:", "a newcomer none"),
    Wrong("71.1", "mistakes are swallowed", _UPDATED,
          _UPDATED + "        except ValueError:\n            pass\n", "a mistake in train"),
    Wrong("71.1", "no return", "return train(state)", "train(state)", "calls of train"),
    Wrong("71.1", "its result is dropped", "return train(state)", "train(state)\n            return None",
          "what run_elastic returns"),
    Wrong("71.1", "once more, and no oftener", "while True:", "for _ in range(2):", "two ranks are lost"),
    Wrong("71.2", "the ranks' places in the whole epoch", "return step[rank::ranks]",
          "return order[rank::ranks][done // ranks : (done + batch) // ranks]", "sample(s)"),
    Wrong("71.2", "everybody takes all", "return step[rank::ranks]", "return step", "computed by two ranks"),
    Wrong("71.2", "blocks that are cut off", "return step[rank::ranks]",
          "return step[rank * (len(step) // ranks) : (rank + 1) * (len(step) // ranks)]", "in nobody's part"),
    Wrong("71.2", "done is forgotten", "order[done : done + batch]", "order[:batch]",
          "in nobody's part"),
    Wrong("71.2", "places for numbers", "return step[rank::ranks]",
          "return np.arange(done, min(done + batch, len(order)))[rank::ranks]", "in nobody's part"),
    Wrong("71.2", "the last takes the rest", "return step[rank::ranks]",
          "each = len(step) // ranks\n"
          "    return step[rank * each :] if rank == ranks - 1 else step[rank * each : (rank + 1) * each]",
          "the parts have"),
    Wrong("71.2", "padded, as ElasticSampler", "return step[rank::ranks]",
          "return np.resize(step, -(-len(step) // ranks) * ranks)[rank::ranks]", "computed by two ranks"),
    Wrong("71.2", "batch for each rank", "order[done : done + batch]", "order[done : done + batch * ranks]",
          "do not belong to this step"),
    Wrong("71.3", "always keeps", "    return batch // first * ranks, rate * ranks / first",
          "    return batch, rate", "rescale: samples of a step"),
    Wrong("71.3", "always rescales", "    if keep:\n        return batch, rate\n", "",
          "keep: samples of a step"),
    Wrong("71.3", "the rate stays", "rate * ranks / first", "rate", "rescale: the rate"),
    Wrong("71.3", "the other way round", "rate * ranks / first", "rate * first / ranks",
          "divided where it has to be multiplied"),
    Wrong("71.3", "the rate of one rank times ranks", "rate * ranks / first", "rate * ranks",
          "rescale: the rate"),
    Wrong("71.3", "samples of a rank", "batch // first * ranks,", "batch // first,",
          "rescale: samples of a step"),
    Wrong("71.3", "a broken number", "batch // first * ranks,", "batch / first * ranks + 0.5,",
          "rescale: samples of a step"),
    Wrong("71.3", "the root of the rule", "rate * ranks / first", "rate * (ranks / first) ** 0.5",
          "rescale: the rate"),
]
# fmt: on
