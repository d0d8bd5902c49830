"""Mistakes that learners make in lab 14, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {"epochs": 4, "seeds": (0,), "images": 2, "matrix": 64, "runs": 5}

FINITE = "torch.isfinite(gradient).all() for gradient in true"

# fmt: off
WRONG = [
    Wrong("14.1", "never unscaled", ' / scaling["scale"] for', " for", "still times the scale"),
    Wrong("14.1", "unscaled in float16", "gradient.float() /", "gradient /", "Divide in float32"),
    Wrong("14.1", "nan is let through",
          FINITE, "not gradient.isinf().any() for gradient in true", "is nan, and yet"),
    Wrong("14.1", "only the first tensor is looked at", FINITE, FINITE + "[:1]", "is inf, and yet"),
    Wrong("14.1", "never below 1", '["scale"] / 2, good', '["scale"] // 2, good', "it may go below 1"),
    Wrong("14.1", "a sum in float16 is looked at",
          FINITE, "torch.isfinite(gradient.sum()) for gradient in gradients", "A sum of them is not"),
    Wrong("14.1", "patience is the check's", "== patience", "== 3", "after 2, 4 and 6"),
    Wrong("14.1", "never counted afresh", "* 2, good=0", "* 2", "after 2, 4 and 6"),
    Wrong("14.1", "the rate is the check's",
          "rate * gradient", "8 * gradient", "the weights, 1 at the start"),
    Wrong("14.1", "overwritten", "weight -= rate", "weight[:] = -rate", "the weights, 1 at the start"),
    Wrong("14.1", "new tensors in the list",
          "for weight, gradient in zip(weights, true, strict=True):\n        weight -= rate * gradient",
          "for number, gradient in enumerate(true):\n        "
          "weights[number] = weights[number] - rate * gradient", "Change it in place"),
    Wrong("14.1", "clipped", "-= rate * gradient", "-= (rate * gradient).clamp(-1, 1)", "gradient of 60,000"),
    Wrong("14.1", "a bad step does not break the row", "/ 2, good=0", "/ 2", "the scale after it"),
    Wrong("14.2", "weights become bfloat16", "    optimizer.zero_grad()", """\
    net.bfloat16()
    images = images.bfloat16()
    optimizer.zero_grad()""", "weights should stay float32"),
    Wrong("14.2", "computes in float32",
          "torch.bfloat16):", "torch.bfloat16, enabled=False):", "should give bfloat16"),
    Wrong("14.2", "float16 instead", "torch.bfloat16)", "torch.float16)", "here it is float16"),
    Wrong("14.2", "the loss in bfloat16", "logits.float()", "logits", "Compute the loss in float32"),
    Wrong("14.2", "a sum", "(), labels)", '(), labels, reduction="sum")', "mean over the images"),
    Wrong("14.2", "two updates", "    optimizer.step()\n", "    optimizer.step()\n" * 2, "One update a step"),
    Wrong("14.2", "the loss after the update", "return loss.item()", """\
with torch.autocast(images.device.type, torch.bfloat16):
        logits = net(images)
    return F.cross_entropy(logits.float(), labels).item()""", "net ran 2 times"),
    Wrong("14.2", "gradients set to zero before the update",
          ["    optimizer.zero_grad()\n", "    loss.backward()\n"],
          ["", "    loss.backward()\n    optimizer.zero_grad()\n"], "No weight changed"),
    Wrong("14.2", "gradients add up", "    optimizer.zero_grad()\n", "", "Loss of step"),
    Wrong("14.2", "the new weights are rounded", "    optimizer.step()", """\
    optimizer.step()
    for one in net.parameters():
        one.data = one.data.bfloat16().float()""", "small updates rounded away"),
    Wrong("14.2", "backward inside autocast",
          ["    loss = F.cross_entropy(logits.float(), labels)\n    loss.backward()\n"],
          ["        loss = F.cross_entropy(logits.float(), labels)\n        loss.backward()\n"],
          "ackward ran inside torch.autocast"),
    Wrong("14.1", "no answer whether the step was taken", "return True", "return None",
          "whether the step was taken"),
]
