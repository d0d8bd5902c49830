"""Mistakes that learners make in lab 14, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {
    "epochs": 4,
    "seeds": (0,),
    "images": 2,
    "matrix": 64,
    "runs": 5,
    "pairs": 8,
    "rows": 256,
    "budget": 1_000_000,
}

FINITE = "torch.isfinite(one).all() for one in true"
CHECKPOINT = "x = checkpoint(net[start : start + length], x, use_reentrant=False)"

# fmt: off
WRONG = [
    Wrong("14.1", "bytes of one image", "batch * (value", "(value", "these are the bytes of one image"),
    Wrong("14.1", "places counted as numbers", "8 * pooled", "value * pooled", "whatever `value` is"),
    Wrong("14.1", "Adam keeps one number", '"Adam": 2', '"Adam": 1', "Adam, 8 images, float32: optimizer"),
    Wrong("14.1", "every layer's output is kept",
          "image + relu + pooled + layers.activations.iloc[-1]", "image + layers.activations.sum()",
          "needs no output of its own"),
    Wrong("14.1", "the input is forgotten", "numbers = image + ", "numbers = ", "the images are missing"),
    Wrong("14.1", "always ten classes", "layers.activations.iloc[-1]", "10", "VGG, 400 classes"),
    Wrong("14.2", "never unscaled", ' / scaling["scale"] for', " for", "still times the scale"),
    Wrong("14.2", "unscaled in float16", "gradient.float() /", "gradient /", "Divide in float32"),
    Wrong("14.2", "nan is let through", FINITE, "not one.isinf().any() for one in true", "is nan, and yet"),
    Wrong("14.2", "only the first tensor is looked at", FINITE, FINITE + "[:1]", "is inf, and yet"),
    Wrong("14.2", "never below 1", '["scale"] / 2, good', '["scale"] // 2, good', "it may go below 1"),
    Wrong("14.2", "a sum in float16 is looked at",
          FINITE, "torch.isfinite(one.sum()) for one in gradients", "A sum of them is not"),
    Wrong("14.2", "patience is the check's", "== patience", "== 3", "after 2, 4 and 6"),
    Wrong("14.2", "never counted afresh", "* 2, good=0", "* 2", "after 2, 4 and 6"),
    Wrong("14.2", "the rate is the check's", "rate * one", "8 * one", "the weights, 1 at the start"),
    Wrong("14.2", "overwritten", "weight -= rate", "weight[:] = -rate", "the weights, 1 at the start"),
    Wrong("14.2", "clipped", "-= rate * one", "-= (rate * one).clamp(-1, 1)", "gradient of 60,000"),
    Wrong("14.2", "a bad step does not break the row", "/ 2, good=0", "/ 2", "the scale after it"),
    Wrong("14.3", "weights become bfloat16", "    optimizer.zero_grad()", """\
    net.bfloat16()
    images = images.bfloat16()
    optimizer.zero_grad()""", "weights should stay float32"),
    Wrong("14.3", "computes in float32",
          "torch.bfloat16):", "torch.bfloat16, enabled=False):", "should give bfloat16"),
    Wrong("14.3", "float16 instead", "torch.bfloat16)", "torch.float16)", "here it is float16"),
    Wrong("14.3", "the loss in bfloat16", "logits.float()", "logits", "Compute the loss in float32"),
    Wrong("14.3", "a sum", "(), labels)", '(), labels, reduction="sum")', "mean over the images"),
    Wrong("14.3", "two updates", "    optimizer.step()\n", "    optimizer.step()\n" * 2, "One update a step"),
    Wrong("14.3", "the loss after the update", "return loss.item()", """\
with torch.autocast(images.device.type, torch.bfloat16):
        logits = net(images)
    return F.cross_entropy(logits.float(), labels).item()""", "net ran 2 times"),
    Wrong("14.3", "gradients set to zero before the update",
          ["    optimizer.zero_grad()\n", "    loss.backward()\n"],
          ["", "    loss.backward()\n    optimizer.zero_grad()\n"], "No weight changed"),
    Wrong("14.3", "gradients add up", "    optimizer.zero_grad()\n", "", "Loss of step"),
    Wrong("14.3", "the new weights are rounded", "    optimizer.step()", """\
    optimizer.step()
    for one in net.parameters():
        one.data = one.data.bfloat16().float()""", "small updates rounded away"),
    Wrong("14.4", "nothing is checkpointed",
          CHECKPOINT, "x = net[start : start + length](x)", "forward keeps"),
    Wrong("14.4", "the rest is dropped", ["-(-len(net) // segments)", "range(0, len(net), length)"],
          ["len(net) // segments", "range(0, segments * length, length)"], "did every layer run"),
    Wrong("14.4", "a lambda that finds another part later", CHECKPOINT, """\
part = net[start : start + length]
        x = checkpoint(lambda h: part(h), x, use_reentrant=False)""", "did not run the same layers"),
    Wrong("14.4", "the length is rounded down",
          "-(-len(net) // segments)", "len(net) // segments", "4 layers long"),
    Wrong("14.4", "nothing returned", "    return x\n", "", "Does the function return x"),
    Wrong("14.4", "whole bytes each", "each = (high - low) /", "each = (high - low) //", "the largest batch"),
    Wrong("14.4", "a float", "int((budget - fixed) // each)", "(budget - fixed) // each", "Use int"),
    Wrong("14.4", "at least one",
          "int((budget - fixed) // each)", "max(1, int((budget - fixed) // each))", "expected 0, got 1"),
    Wrong("14.4", "nothing fixed", "fixed = low - small * each", "fixed = 0", "the largest batch"),
    Wrong("14.4", "rounded up",
          "int((budget - fixed) // each)", "round((budget - fixed) / each)", "the largest batch"),
]
