"""Mistakes that learners make in lab 16, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {"batches": (8, 16), "pairs": 8, "rows": 256, "budget": 1_000_000, "runs": 5}

CHECKPOINT = "x = checkpoint(net[start : start + length], x, use_reentrant=False)"

# fmt: off
WRONG = [
    Wrong("16.1", "bytes of one image", "batch * (value", "(value", "These are the bytes of one image"),
    Wrong("16.1", "places counted as numbers", "8 * pooled", "value * pooled", "whatever `value` is"),
    Wrong("16.1", "Adam keeps one number", '"Adam": 2', '"Adam": 1', "Adam keeps two numbers for each"),
    Wrong("16.1", "every layer's output is kept",
          "image + relu + pooled + layers.activations.iloc[-1]", "image + layers.activations.sum()",
          "needs no output of its own"),
    Wrong("16.1", "the input is forgotten", "numbers = image + ", "numbers = ", "The images are missing"),
    Wrong("16.1", "always ten classes", "layers.activations.iloc[-1]", "10", "VGG, 400 classes"),
    Wrong("16.1", "nothing kept by the loss",
          " + layers.activations.iloc[-1]", "", "The last layer's outputs are missing"),
    Wrong("16.2", "nothing is checkpointed",
          CHECKPOINT, "x = net[start : start + length](x)", "forward keeps"),
    Wrong("16.2", "the rest is dropped", ["-(-len(net) // segments)", "range(0, len(net), length)"],
          ["len(net) // segments", "range(0, segments * length, length)"], "did every layer run"),
    Wrong("16.2", "a lambda that finds another part later", CHECKPOINT, """\
part = net[start : start + length]
        x = checkpoint(lambda h: part(h), x, use_reentrant=False)""", "did not run the same layers"),
    Wrong("16.2", "the length is rounded down",
          "-(-len(net) // segments)", "len(net) // segments", "4 layers long"),
    Wrong("16.2", "nothing returned", "return x", "pass", "Does the function return x"),
    Wrong("16.3", "whole bytes each", "each = (high - low) /", "each = (high - low) //", "the largest batch"),
    Wrong("16.3", "a float", "int((budget - fixed) // each)", "(budget - fixed) // each", "Use int"),
    Wrong("16.3", "at least one",
          "int((budget - fixed) // each)", "max(1, int((budget - fixed) // each))", "expected 0, got 1"),
    Wrong("16.3", "fewer than none",
          "max(0, int((budget - fixed) // each))", "int((budget - fixed) // each)", "expected 0, got -"),
    Wrong("16.3", "nothing fixed", "fixed = low - small * each", "fixed = 0", "the largest batch"),
    Wrong("16.3", "rounded up",
          "int((budget - fixed) // each)", "round((budget - fixed) / each)", "the largest batch"),
]
