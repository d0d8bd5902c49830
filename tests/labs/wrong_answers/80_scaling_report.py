"""Mistakes that learners make in lab 80, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"most": 4, "rounds": 2, "steps": 3, "images": 64}

STEP = "own * per_image + scaling.costs.ring_allreduce_time(nbytes, ranks, latency, beta)"
OWN = 'images if kind == "weak" else -(-images // ranks)'
TURN = "configurations[k:] + configurations[:k]"
STRONG = "{time_strong_most}, which is {speedup_strong_most} as fast"
RATE = "an efficiency of\n            {efficiency_strong_most}."

# fmt: off
WRONG = [
    Wrong("80.1", "the latency by heart", "(nbytes, ranks, latency, beta)", "(nbytes, ranks, 5e-6, beta)",
          "strong, ranks: 8, 64 images"),
    Wrong("80.1", "one image more wherever ranks share", "-(-images // ranks)",
          "images // ranks + (ranks > 1)", "even share has no image more"),
    Wrong("80.1", "the longer of the two", STEP, f"max({STEP.replace(' + ', ', ')})", "seconds are added"),
    Wrong("80.1", "no ring", STEP, "own * per_image", "he ring is missing"),
    Wrong("80.1", "an even share", OWN, 'images if kind == "weak" else images / ranks', "rounded up"),
    Wrong("80.1", "rounded down", OWN, 'images if kind == "weak" else images // ranks',
          "ounded down, an image is missing"),
    Wrong("80.1", "weak shares, too", OWN, "-(-images // ranks)", "each rank has all of `images`"),
    Wrong("80.1", "strong shares nothing", OWN, "images", "the ranks share `images`"),
    Wrong("80.1", "nothing is returned", f"return {STEP}", f"result = {STEP}", "return its result"),
    Wrong("80.2", "the example's three configurations, always", "number % len(configurations)", "number % 3",
          "two rounds, one after the other"),
    Wrong("80.2", "one configuration after the other",
          "    for number in range(rounds):\n        k = number % len(configurations)\n"
          "        order += " + TURN,
          "    for configuration in configurations:\n        order += [configuration] * rounds",
          "does not hold each configuration once"),
    Wrong("80.2", "always the same first", "k = number % len(configurations)", "k = 0",
          "Not all configurations take it in turn"),
    Wrong("80.2", "only the first is another", TURN,
          "[configurations[k], *configurations[:k], *configurations[k + 1 :]]", "place 1 of the rounds"),
    Wrong("80.2", "sorted first", "    order = []\n", "    order = []\n    configurations = sorted(configurations)\n",
          "the order of the given list"),
    Wrong("80.2", "one round", "range(rounds)", "range(1)", "runs in the plan"),
    Wrong("80.2", "the caller's list is turned", f"order += {TURN}",
          "order += configurations\n        configurations.append(configurations.pop(0))",
          "it is the caller's"),
    Wrong("80.2", "nothing is returned", "return order", "result = order", "plan returns None"),
    Wrong("80.3", "seconds", "step = sum(parts.values())", "step = 1.0",
          "hese are seconds"),
    Wrong("80.3", "all of computing", '(parts["compute"] - ideal) / step', 'parts["compute"] / step',
          "not of its loss"),
    Wrong("80.3", "shares of the ideal", "step = sum(parts.values())",
          'step = alone / ranks if kind == "strong" else alone', "divided by the ideal time"),
    Wrong("80.3", "weak as strong", 'alone / ranks if kind == "strong" else alone', "alone / ranks",
          "n weak scaling another time is ideal"),
    Wrong("80.3", "strong as weak", 'alone / ranks if kind == "strong" else alone', "alone",
          "n strong scaling another time is ideal"),
    Wrong("80.3", "cut off at zero", '{"slower": (parts["compute"] - ideal) / step}',
          '{"slower": max(0.0, (parts["compute"] - ideal) / step)}', "below zero is a gain"),
    Wrong("80.3", "no waiting", '("communicate", "wait")', '("communicate",)', "names of the losses"),
    Wrong("80.3", "rank-hours", "nodes = -(-ranks // per_node)", "nodes = ranks", "hese are rank-hours"),
    Wrong("80.3", "a part of a node", "nodes = -(-ranks // per_node)", "nodes = ranks / per_node",
          "paid for as a whole"),
    Wrong("80.3", "nodes rounded down", "nodes = -(-ranks // per_node)", "nodes = ranks // per_node",
          "a node is missing"),
    Wrong("80.3", "nodes to the nearest", "nodes = -(-ranks // per_node)",
          "nodes = max(1, round(ranks / per_node))", "node-hours"),
    Wrong("80.3", "node-seconds", "seconds * steps / 3600", "seconds * steps", "n hour has 3600"),
    Wrong("80.3", "whole steps", "* steps /", "* int(steps) /", "do not round `steps`"),
    Wrong("80.3", "a loop over steps", "seconds * steps / 3600", "sum(seconds for _ in range(steps)) / 3600",
          "float"),
    Wrong("80.3", "hours", "nodes * seconds", "seconds", "node-hours"),
    Wrong("80.3", "the caller's dict", "parts[name] / step for", "parts.pop(name) / step for", "afterwards"),
    Wrong("80.4", "the question is not answered", "It pays up to {answer_strong}. On", "On",
          "lacks {answer_strong}, which answers the question"),
    Wrong("80.4", "a typed share", RATE, "an efficiency of 98 %.", "“98 %” is supported by no record"),
    Wrong("80.4", "a number in words", STRONG, "{time_strong_most}, which is twice as fast",
          "“twice” is supported by no record"),
    Wrong("80.4", "a share in words", RATE, "an efficiency of ninety-eight percent.",
          "a number in words is a number"),
    Wrong("80.4", "a figure that nobody measured", "{time_strong_most}", "{time_strong_48}",
          "was measured on 1, 2, 4 ranks, not on 48"),
    Wrong("80.4", "a misspelt name", "{time_strong_most}", "{tme_strong_most}", "mean {time_strong_most}"),
    Wrong("80.4", "energy that nobody read", "cheapest. {energy}", "cheapest, {joules_strong_most}. {energy}",
          "no energy is on record"),
    Wrong("80.4", "no word about energy", " {energy}", "", "lacks {energy}"),
    Wrong("80.4", "a unit of one's own", "{time_strong_most}, which", "{time_strong_most} hours, which",
          "brings its own unit"),
    Wrong("80.4", "a sign", "Slower computing takes\n            {slower",
          "Slower computing takes\n            -{slower",
          "makes another number of it"),
    Wrong("80.4", "ranks that were not there", "as on one rank", "as on 3 ranks",
          "the records of this study have 1, 2, 4"),
    Wrong("80.4", "a section is missing", '"Limits": """One net', '"Scope": """One net',
          "section `## Limits` is missing"),
    Wrong("80.4", "no words",
          ["One net, one size of batch, one way to sum. Nothing overlaps here, though real libraries\n",
           "hide a part of the sum behind the computing (lab 32). Input and accuracy were not measured."],
          ["None.", ""], "fewer than 12 words"),
    Wrong("80.4", "a prompt is left", "Nothing overlaps here", "TODO what else? Nothing overlaps here",
          "is not finished"),
    Wrong("80.4", "no error", ["{error_strong_most}", "{error_weak_most}"], ["a little", "some more"],
          "lacks an error"),
    Wrong("80.4", "a picture of one's own", "{plot_strong}", "![98 %](strong.png)", "A picture can hold numbers"),
    Wrong("80.4", "a number hidden by markup", "{time_strong_most}, which", "**2**.5 s, which",
          "“2.5 s” is supported by no record"),
    Wrong("80.4", "quarters in words", RATE, "three quarters.", "“three quarters” is supported by no record"),
    Wrong("80.4", "a factor in words", STRONG, "a factor of two faster", "“factor of two” is supported"),
    Wrong("80.4", "a noun of one's own", "On {ranks_most} a step", "On {ranks_most} ranks a step",
          "brings its own unit"),
    Wrong("80.4", "a table in a sentence", "\n\n            {table_parts}", " See {table_parts}",
          "put it on a separate line"),
    Wrong("80.4", "an f-string", '"""It pays up to', 'f"""It pays up to', "write the string without an f"),
    Wrong("80.4", "a text that is none", '"Limits": """One', '"Limits": None, "Scope": """One',
          "The text of 'Limits' is a string"),
    Wrong("80.4", "a list of pairs", "    return {\n", "    return None and {\n", "own_words returns a dict"),
]

RIGHT = [
    Right("80.1", "the ring by hand",
          [OWN, STEP], ['images if kind != "strong" else (images + ranks - 1) // ranks',
          "own * per_image + 2 * (ranks - 1) * (latency + nbytes / ranks * beta)"]),
    Right("80.1", "divmod, keywords", [OWN, STEP], [
        '{"weak": images, "strong": sum(divmod(images + ranks - 1, ranks)[:1])}[kind]\n    ring ='
        " scaling.costs.ring_allreduce_time(n=nbytes, p=ranks, alpha=latency, beta=beta)",
        "sum((own * per_image, ring))"]),
    Right("80.2", "turned from the end, tuples", """\
    order = []
    for number in range(rounds):
        k = number % len(configurations)
        order += configurations[k:] + configurations[:k]
    return order""", """\
    turned = list(configurations)
    order = ()
    for _ in range(rounds):
        order += tuple(turned)
        turned = [turned[-1], *turned[:-1]]
    return order"""),
    Right("80.2", "a comprehension by index", """\
    order = []
    for number in range(rounds):
        k = number % len(configurations)
        order += configurations[k:] + configurations[:k]
    return order""", """\
    count = len(configurations)
    places = [place + number for number in range(rounds) for place in range(count)]
    return [configurations[place % count] for place in places]"""),
    Right("80.3", "1 - efficiency less the others", [
        '    return lost | {"slower": (parts["compute"] - ideal) / step}',
        "nodes = -(-ranks // per_node)"], [
        '    lost["slower"] = 1 - ideal / step - sum(lost.values())\n    return lost',
        "nodes = int((ranks + per_node - 1) / per_node)"]),
    Right("80.3", "dict(), other order", [
        '    lost = {name: parts[name] / step for name in ("communicate", "wait")}\n'
        '    return lost | {"slower": (parts["compute"] - ideal) / step}',
        "return nodes * seconds * steps / 3600"], [
        '    return dict(slower=(parts["compute"] - ideal) / step, wait=parts["wait"] / step,\n'
        '                communicate=parts["communicate"] / step)',
        "return steps / 3600.0 * seconds * nodes"]),
    Right("80.4", "other words, other figures", [
        "It pays up to {answer_strong}. On", RATE, "\n\n            {table_parts}"], [
        "By the second of two rules it is {answer_strong}. On", "{efficiency_strong_most} of the ideal.",
        " A third cause is on the next lines.\n            {table_parts}"]),
    Right("80.4", "without tables", ["            {table_parts}", "            {table_cost}"], ["", ""]),
]
# fmt: on
