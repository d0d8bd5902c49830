"""Mistakes that learners make in lab 14, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {
    "epochs": 4,
    "seeds": (0,),
    "images": 2,
    "runs": 5,
    "pairs": 8,
    "rows": 256,
    "workload": "tiny",
}

CHECKPOINT = "x = checkpoint(net[start : start + length], x, use_reentrant=False)"
FINITE = "torch.isfinite(gradient).all() for gradient in true"

# fmt: off
WRONG = [
    Wrong("14.1", "never unscaled", ' / scaling["scale"] for', " for", "still times the scale"),
    Wrong("14.1", "unscaled in float16", "gradient.float() /", "gradient /", "Divide in float32"),
    Wrong("14.1", "nan is let through",
          FINITE, "not gradient.isinf().any() for gradient in true", "is nan, and yet"),
    Wrong("14.1", "one finite number is enough for a tensor",
          FINITE, FINITE.replace("all()", "any()"), "and yet a weight changed"),
    Wrong("14.1", "the largest number of a tensor is looked at",
          FINITE, "torch.isfinite(gradient.max()) for gradient in true", "and yet a weight changed"),
    Wrong("14.1", "only the first tensor is looked at", FINITE, FINITE + "[:1]", "is inf, and yet"),
    Wrong("14.1", "never below 1", '["scale"] / 2, good', '["scale"] // 2, good', "also below 1"),
    Wrong("14.1", "a sum in float16 is looked at",
          FINITE, "torch.isfinite(gradient.sum()) for gradient in gradients", "A sum of them is not"),
    Wrong("14.1", "patience is the check's", "== patience", "== 3", "good steps in a row"),
    Wrong("14.1", "never counted afresh", "* 2, good=0", "* 2", "good steps in a row"),
    Wrong("14.1", "the rate is the check's",
          "rate * gradient", "8 * gradient", "the weights, 1 at the start"),
    Wrong("14.1", "overwritten", "weight -= rate", "weight[:] = -rate", "the weights, 1 at the start"),
    Wrong("14.1", "new tensors in the list",
          "for weight, gradient in zip(weights, true, strict=True):\n        weight -= rate * gradient",
          "for number, gradient in enumerate(true):\n        "
          "weights[number] = weights[number] - rate * gradient", "Change it in place"),
    Wrong("14.1", "halved for each bad gradient", '["scale"] / 2,',
          '["scale"] / 2 ** sum(not torch.isfinite(gradient).all() for gradient in gradients),',
          "for several bad gradients"),
    Wrong("14.1", "clipped", "-= rate * gradient", "-= (rate * gradient).clamp(-1, 1)", "gradient of 60,000"),
    Wrong("14.1", "a bad step does not break the row", "/ 2, good=0", "/ 2", "counted from 0 again"),
    Wrong("14.2", "the labels of the first batch in each step", "F.cross_entropy(logits.float(), labels)",
          "F.cross_entropy(logits.float(), optimizer.__dict__.setdefault('labels', labels))", "Loss of step 2"),
    Wrong("14.2", "plain SGD by hand, whatever the optimizer is", "    optimizer.step()\n",
          "    with torch.no_grad():\n        for weight in net.parameters():\n"
          "            weight -= optimizer.param_groups[0]['lr'] * weight.grad\n",
          "the given optimizer made 0 steps"),
    Wrong("14.2", "trains in evaluation mode", "    optimizer.zero_grad()\n",
          "    net.eval()\n    optimizer.zero_grad()\n", "left the net in evaluation mode"),
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
          "backward pass ran inside torch.autocast"),
    Wrong("14.1", "no answer whether the step was taken", "return True", "return None",
          "whether the step was taken"),
    Wrong("14.3", "a column put into the caller's table", "    relu = layers",
          '    layers["kept"] = batch * layers.activations\n    relu = layers', "`layers` was changed"),
    Wrong("14.3", "bytes of one image", "batch * (value", "(value", "These are the bytes of one image"),
    Wrong("14.3", "places counted as numbers", "8 * pooled", "value * pooled", "whatever `value` is"),
    Wrong("14.3", "places of one image", "batch * (value * numbers + 8 * pooled)",
          "batch * value * numbers + 8 * pooled", "They grow with the batch"),
    Wrong("14.3", "places forgotten", " + 8 * pooled", "", "Pooling also keeps the places"),
    Wrong("14.3", "pooling's outputs forgotten",
          "+ relu + pooled +", "+ relu +", "as the next layer's input"),
    Wrong("14.3", "every layer's output is kept",
          "image + relu + pooled + layers.activations.iloc[-1]", "image + layers.activations.sum()",
          "needs no output of its own"),
    Wrong("14.3", "the input is forgotten", "numbers = image + ", "numbers = ", "The images are missing"),
    Wrong("14.3", "always ten classes", "layers.activations.iloc[-1]", "10", "VGG, 400 classes"),
    Wrong("14.3", "the loss always in float32", [" + layers.activations.iloc[-1]", "value * numbers"],
          ["", "value * numbers + 4 * layers.activations.iloc[-1]"], "24 images, bfloat16"),
    Wrong("14.3", "nothing kept by the loss", " + layers.activations.iloc[-1]", "",
          "Digits, 8 images, float32: bytes kept"),
    Wrong("14.4", "nothing is checkpointed",
          CHECKPOINT, "x = net[start : start + length](x)", "forward pass keeps"),
    Wrong("14.4", "the rest is dropped", ["-(-len(net) // segments)", "range(0, len(net), length)"],
          ["len(net) // segments", "range(0, segments * length, length)"], "did every layer run"),
    Wrong("14.4", "a shorter last segment is dropped", "range(0, len(net), length)",
          "range(0, len(net) - length + 1, length)", "Is there one for each segment"),
    Wrong("14.4", "a lambda that finds another part later", CHECKPOINT, """\
part = net[start : start + length]
        x = checkpoint(lambda h: part(h), x, use_reentrant=False)""", "did not run the same layers"),
    Wrong("14.4", "the length is rounded down",
          "-(-len(net) // segments)", "len(net) // segments", "4 layers long"),
    Wrong("14.4", "one layer more, even where all segments are equally long",
          "-(-len(net) // segments)", "len(net) // segments + 1", "at most 3"),
    Wrong("14.4", "all that remains in the last segment",
          ["-(-len(net) // segments)", "range(0, len(net), length)", "start + length]"],
          ["len(net) // segments", "range(0, segments * length, length)",
           "start + length if start < (segments - 1) * length else None]"], "at most 3"),
    Wrong("14.4", "nothing returned", "return x", "pass", "Does the function return x"),
    Wrong("14.4", "PyTorch's own cut, which keeps the last segment", [
          "    for start in range(0, len(net), length):\n        " + CHECKPOINT + "\n"],
          ["    from torch.utils.checkpoint import checkpoint_sequential\n\n"
           "    x = checkpoint_sequential(net, segments, x, use_reentrant=False)\n"],
          "checkpoint each, the last too"),
]

RIGHT = [
    Right("14.1", "in place by add_, the scale by its keys", [
          "        weight -= rate * gradient\n",
          '        scaling.update(scale=scaling["scale"] / 2, good=0)\n'], [
          "        weight.add_(gradient, alpha=-rate)\n",
          '        scaling["scale"] *= 0.5\n        scaling["good"] = 0\n']),
    Right("14.1", "the norm is looked at, in float32", FINITE,
          "math.isfinite(gradient.abs().max().item()) for gradient in true".replace("math.", "np.")),
    Right("14.2", "the loss inside of autocast, which computes it in float32, and a NumPy number", [
          "    loss = F.cross_entropy(logits.float(), labels)", "return loss.item()"], [
          "        loss = F.cross_entropy(logits, labels)", "return loss.detach().cpu().numpy()[()]"]),
    Right("14.2", "keyword arguments, a module for the loss", [
          "torch.autocast(images.device.type, torch.bfloat16)", "F.cross_entropy(logits.float(), labels)"], [
          "torch.autocast(device_type=images.device.type, dtype=torch.bfloat16)",
          "torch.nn.CrossEntropyLoss()(logits.to(torch.float32), labels)"]),
    Right("14.3", "a loop over the rows",
          """    relu = layers.activations[layers.kind == "relu"].sum()
    pooled = layers.activations[layers.kind == "pool"].sum()
    numbers = image + relu + pooled + layers.activations.iloc[-1]
""", """    relu = pooled = last = 0
    for row in layers.itertuples():
        relu += row.activations if row.kind == "relu" else 0
        pooled += row.activations if row.kind == "pool" else 0
        last = row.activations
    numbers = image + relu + pooled + last
"""),
    Right("14.3", "two kinds at once", "relu + pooled",
          'layers.activations[layers.kind.isin(["relu", "pool"])].sum()'),
    Right("14.4", "a list of parts", """    for start in range(0, len(net), length):
        x = checkpoint(net[start : start + length], x, use_reentrant=False)
""", """    parts = [torch.nn.Sequential(*list(net)[i : i + length]) for i in range(0, len(net), length)]
    for part in parts:
        x = checkpoint(part, x, use_reentrant=False)
"""),
    Right("14.4", "segments that differ by one layer at most", """    for start in range(0, len(net), length):
        x = checkpoint(net[start : start + length], x, use_reentrant=False)
""", """    for part in np.array_split(np.arange(len(net)), segments):
        x = checkpoint(net[part[0] : part[-1] + 1], x, use_reentrant=False)
"""),
    Right("14.4", "the length by ceil", "-(-len(net) // segments)", "int(np.ceil(len(net) / segments))"),
]
