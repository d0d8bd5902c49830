"""Mistakes that learners make in lab 17, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {
    "images": 96,
    "side": 64,
    "shards": 8,
    "width": 8,
    "shares": (0.5, 2),
    "rounds": 1,
    "steps": 5,
    "loader_workers": 0,
    "repeats": 1,
}

# fmt: off
WRONG = [
    Wrong("17.1", "no end", '        ready.put(("end", None))\n', "", "what is in the queue"),
    Wrong("17.1", "items alone", 'ready.put(("item", item))', "ready.put(item)", "what is in the queue"),
    Wrong("17.1", "None is taken for the end",
          'if kind == "end":', "if value is None:", "take of these pairs"),
    Wrong("17.1", "the end is yielded", """\
        if kind == "end":
            return
""", """\
        if kind == "end":
            yield value
            return
""", "take of these pairs"),
    Wrong("17.1", "never looks at stop", "if stop.is_set():", "if False:",
          "stop is set before the first item"),
    Wrong("17.1", "looks at stop once",
          ["        for item in items:\n            if stop.is_set():\n                return\n"],
          ["        if stop.is_set():\n            return\n        for item in items:\n"],
          "Does the thread look at `stop`"),
    Wrong("17.1", "a queue that is empty for a second is taken for the end",
          "        kind, value = ready.get()\n", """\
        try:
            kind, value = ready.get(timeout=1)
        except queue.Empty:
            return
""", "an empty queue is none"),
    Wrong("17.1", "some errors only",
          "except Exception as error", "except OSError as error", "waits for ever"),
    Wrong("17.1", "those errors only that came to mind",
          "except Exception as error", "except (OSError, ValueError) as error", "waits for ever"),
    Wrong("17.1", "gives up when the queue stays full",
          'ready.put(("item", item))', 'ready.put(("item", item), timeout=5)', "put waits as long as that"),
    Wrong("17.1", "gives up when no batch comes",
          "ready.get()\n        if kind", "ready.get(timeout=5)\n        if kind",
          "get waits as long as that"),
    Wrong("17.1", "all is read before the first item comes out",
          "for item in items:", "for item in list(items):", "Put each as soon as it is read"),
    Wrong("17.1", "an error ends the thread, unseen",
          'ready.put(("error", error))', "print(error)", "waits for ever"),
    Wrong("17.1", "the error is yielded", "raise value", "yield value", "waits for ever"),
    Wrong("17.1", "an error is taken for the end", "raise value", "return", "as if all was well"),
    Wrong("17.1", "an end behind an error, too", """\
        ready.put(("end", None))
    except Exception as error:
        ready.put(("error", error))
""", """\
    except Exception as error:
        ready.put(("error", error))
    ready.put(("end", None))
""", "The error is put instead of"),
    Wrong("17.2", "never below all", "max(0.0, read - compute)", "read",
          "It goes on while the step computes"),
    Wrong("17.2", "below 0", "max(0.0, read - compute)", "read - compute", "cannot wait less than 0"),
    Wrong("17.2", "the whole step", "max(0.0, read - compute)", "max(read, compute)", "whole time"),
    Wrong("17.2", "the other way round", "if ahead", "if not ahead", "no prefetch: expected"),
    Wrong("17.3", "the wider pipe", "min(own", "max(own", "narrower pipe"),
    Wrong("17.3", "each gets all", "together / ranks", "together", "each gets an equal part"),
    Wrong("17.3", "no open", "latency + nbytes", "nbytes", "The open is missing"),
    Wrong("17.3", "an open after the other", "latency + nbytes", "ranks * latency + nbytes", "one latency"),
]
