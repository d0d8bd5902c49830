"""Mistakes of learners in lab 53: exercise, mistake, what is replaced, by what, a phrase of the rejection."""

from tests.labs.wrong_answers import Wrong

SMALL = {
    "steps": 4,
    "many": 5,
    "fresh": 1,
    "sixteens": 1,
    "recorded_steps": 3,
    "training_steps": 32,
    "message": 4096,
}

_SLOWEST = "return np.sum(np.sort(samples) * np.diff(at_most))"
_LATEST = 'latest = [int(np.argmin(step["wait"])) for step in steps]'
_LIMIT = '    if latest.count(rank) <= len(steps) / 2:\n        return None, "jitter"\n'
_PART = "part = max(mean, key=lambda part: lab53.above(mean[part], rank))"
_WAIT = 'seconds["wait"] = seconds.pop("exchange") - seconds["send"]'

# fmt: off
WRONG = [
    Wrong("53.1", "one rank's mean", _SLOWEST, "return np.mean(samples)", "one rank's mean"),
    Wrong("53.1", "the longest of all", _SLOWEST, "return np.max(samples)", "the longest of all"),
    Wrong("53.1", "not sorted", "np.sort(samples)", "samples", "Slowest of"),
    Wrong("53.1", "sorts in place", _SLOWEST,
          "samples.sort()\n    return np.sum(samples * np.diff(at_most))", "The array of samples"),
    Wrong("53.1", "the fastest", "np.sort(samples)", "np.sort(samples)[::-1]", "Slowest of 2"),
    Wrong("53.1", "times ranks in place of power", "(np.arange(n + 1) / n) ** ranks",
          "(np.arange(n + 1) / n) * ranks", "Slowest of 2"),
    Wrong("53.1", "one quantile", _SLOWEST, "return np.quantile(samples, 1 - 1 / (ranks + 1))", "Slowest of"),
    Wrong("53.1", "thrown, not computed", _SLOWEST,
          "dice = np.random.default_rng(0)\n"
          "    return dice.choice(samples, (1000, ranks)).max(axis=1).mean()", "Slowest of"),

    Wrong("53.2", "the whole exchange", _WAIT, 'seconds["wait"] = seconds["exchange"]',
          "its sends are no waiting"),
    Wrong("53.2", "the last span of a kind", "seconds[kind][rank] += end - begin",
          "seconds[kind][rank] = end - begin", "seconds of send"),
    Wrong("53.2", "no wait", _WAIT, "pass", "no 'wait'"),
    Wrong("53.2", "all ranks together", "seconds[kind][rank] += end - begin",
          "seconds[kind] += end - begin", "seconds of input"),
    Wrong("53.2", "until the end", "+= end - begin", "+= end", "seconds of compute"),
    Wrong("53.2", "send less exchange", _WAIT, 'seconds["wait"] = seconds["send"] - seconds["exchange"]',
          "seconds of wait"),

    Wrong("53.3", "who waits most", "np.argmin", "np.argmax", "rank and cause"),
    Wrong("53.3", "the longest compute", _LATEST,
          'latest = [int(np.argmax(step["compute"])) for step in steps]', "rank and cause"),
    Wrong("53.3", "nobody is innocent", _LIMIT, "", "one bad step is no slow rank"),
    Wrong("53.3", "half is most", "<= len(steps) / 2", "< len(steps) / 2", "Half of the steps are not most"),
    Wrong("53.3", "the mean over the steps",
          [_LATEST, "rank = max(set(latest), key=latest.count)", _LIMIT],
          ['waits = np.mean([step["wait"] for step in steps], axis=0)', "rank = int(waits.argmin())", ""],
          "rank and cause"),
    Wrong("53.3", "the first step decides", "for step in steps]\n    rank",
          "for step in steps[:1]]\n    rank", "rank and cause"),
    Wrong("53.3", "the longest part, beside nobody", _PART,
          "part = max(mean, key=lambda part: mean[part][rank])", "rank and cause"),
    Wrong("53.3", "above the mean of images", "    if lab53.above(each, rank) > 0.1 * np.median(each):",
          "    if images[rank] <= np.median(images):", "slow core"),
    Wrong("53.3", "never the link", '("input", "compute", "send")', '("input", "compute")', "slow link"),
    Wrong("53.3", "imbalance for every core", 'return rank, "slow core"', 'return rank, "imbalance"',
          "slow core"),
    Wrong("53.3", "the cause alone", 'return rank, "slow disk"', 'return "slow disk"', "rank and cause"),

    Wrong("53.4", "waits for all", "[:, -1 - backups]", "[:, -1]", "This waits for all"),
    Wrong("53.4", "waits for the backups alone", "[:, -1 - backups]", "[:, backups]", "seconds"),
    Wrong("53.4", "the last one is not used", "times <= seconds", "times < seconds", "gradients are used"),
    Wrong("53.4", "who is lost, not who is used", "times <= seconds", "times > seconds",
          "gradients are used"),
    Wrong("53.4", "the last ranks are the backups", "return seconds, times <= seconds[:, None]",
          "return seconds, np.arange(times.shape[1]) < np.full((len(times), 1), times.shape[1] - backups)",
          "gradients are used"),
    Wrong("53.4", "ones and zeros", "times <= seconds[:, None]", "(times <= seconds[:, None]).astype(int)",
          "True and False"),
    Wrong("53.4", "no mask", "return seconds, times <= seconds[:, None]", "return seconds",
          "values that are returned"),
    Wrong("53.4", "sorts in place", "seconds = np.sort(times, axis=1)[:, -1 - backups]",
          "times.sort(axis=1)\n    seconds = times[:, -1 - backups]", "53.4"),
    Wrong("53.4", "waits after every step", "rounds.sum(axis=1).max(axis=1)",
          "rounds.max(axis=2).sum(axis=1)",
          "Here all wait"),
    Wrong("53.4", "rounds across ranks", "times.reshape(-1, every, times.shape[1])",
          "times.T.reshape(-1, every, times.shape[1])", "53.4"),
    Wrong("53.4", "seconds of a step, not of a round", "rounds.sum(axis=1)", "rounds.mean(axis=1)",
          "seconds of rounds"),
]
# fmt: on
