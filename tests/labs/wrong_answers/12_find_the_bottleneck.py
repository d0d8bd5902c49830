"""Mistakes of learners in lab 12."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {
    "threads": 1,
    "rows": 256,
    "megabytes": 8,
    "side": 512,
    "pictures": 512,
    "batch": 8,
    "seconds": 0.1,
    "compiled": False,
}

BATCH = "loss = F.cross_entropy(net(prepared[rows]), labels[rows])"
LOOP = (
    "loss = sum(F.cross_entropy(net(prepared[r : r + 1]), labels[r : r + 1]) for r in rows) /"
    " len(rows)"
)
HALVES = """total = 0.0
    for part in rows.chunk(2):
        loss = F.cross_entropy(net(prepared[part]), labels[part], reduction="sum") / len(rows)
        loss.backward()
        total += loss.item()"""
READY = "return (numbers - numbers.mean()) / numbers.std()"

# fmt: off
WRONG = [
    Wrong("12.1", "a multiply-add is one", "flops = 2 * batch", "flops = batch", "is two operations"),
    Wrong("12.1", "the result is not written", " + batch * outputs)", ")", "Missing among the bytes"),
    Wrong("12.1", "always 4 bytes", "return flops, size *", "return flops, 4 *", "has 2 bytes, you count 4"),
    Wrong("12.1", "no stride",
          "(height + 2 * padding - kernel) // stride", "(height + 2 * padding - kernel)", "flops (out"),
    Wrong("12.1", "positions rounded, not cut",
          "(height + 2 * padding - kernel) // stride", "round((height + 2 * padding - kernel) / stride)",
          "flops (out"),
    Wrong("12.2", "the product is skipped where nobody counts it",
          "    a, b = torch.randn(n, n, device=device), torch.randn(n, n, device=device)\n",
          "    side = n if n in (97, 300) else 32\n"
          "    a, b = torch.randn(side, side, device=device), torch.randn(side, side, device=device)\n",
          "beside labkit's own measurement"),
    Wrong("12.2", "a pause in each call", "lambda: a @ b", "lambda: (__import__('time').sleep(0.02), a @ b)",
          "beside labkit's own measurement"),
    Wrong("12.2", "a smaller product, counted as the large one",
          "    a, b = torch.randn(n, n, device=device), torch.randn(n, n, device=device)\n",
          "    side = min(n, 128)\n"
          "    a, b = torch.randn(side, side, device=device), torch.randn(side, side, device=device)\n",
          "For n=300, the operations of a product"),
    Wrong("12.2", "an array that fits into a cache, whatever is asked",
          "torch.ones(nbytes // 4, device=device)", "torch.ones(min(nbytes // 4, 1 << 16), device=device)",
          "262144 bytes, not 8000000"),
    Wrong("12.2", "a multiply-add is one", "return 2 * n**3", "return n**3", "is two operations"),
    Wrong("12.2", "matrices made while timed",
          "lambda: a @ b", "lambda: a @ torch.randn(n, n)", "more than a product: randn"),
    Wrong("12.2", "what is written does not count",
          "return 2 * source.nbytes", "return source.nbytes", "both are moved"),
    Wrong("12.2", "a new array each time",
          "target.copy_(source)", "source.clone()", "Each call makes a new tensor"),
    Wrong("12.2", "a new, empty array each time",
          "target.copy_(source)", "torch.empty_like(source).copy_(source)", "Each call makes a new tensor"),
    Wrong("12.2", "zeros are read", "torch.ones(", "torch.zeros(", "or with zeros"),
    Wrong("12.2", "does not wait for a GPU",
          "target.copy_(source), device=device", "target.copy_(source)", "device=device"),
    Wrong("12.2", "a tensor onto itself", "target.copy_(source)", "source.copy_(source)", "copies nothing"),
    Wrong("12.2", "numbers, not bytes", "torch.ones(nbytes // 4", "torch.ones(nbytes", "a float32 has 4"),
    Wrong("12.2", "one number, read again and again",
          "torch.ones(nbytes // 4, device=device)\n    target = torch.empty_like(source)",
          "torch.ones(1).expand(nbytes // 4)\n    target = torch.empty(nbytes // 4)",
          "one number many times"),
    Wrong("12.2", "the notebook's size, not n",
          ["a, b = torch.randn(n, n, device=device), torch.randn(n, n, device=device)", "return 2 * n**3"],
          ["a, b = torch.randn(2, rows, rows, device=device)", "return 2 * rows**3"], "Are both n x n"),
    Wrong("12.2", "matrices in the host's memory",
          "torch.randn(n, n, device=device), torch.randn(n, n, device=device)",
          "torch.randn(n, n), torch.randn(n, n)", "matrix_peak leaves `device` out"),
    Wrong("12.2", "the product, not a function", "lambda: a @ b", "a @ b", "write `lambda:`"),
    Wrong("12.3", "whole flop/s alone", "bandwidth * intensity)", "bandwidth * intensity // 1)",
          "flop/s at 0.375 flops per byte"),
    Wrong("12.1", "the convolution of one image", "return 2 * batch * rows", "return 2 * rows",
          "expected 86400, got 21600."),
    Wrong("12.3", "a ridge by heart", "return min(peak, bandwidth * intensity)",
          "return peak if intensity > 1 else bandwidth * intensity", "flop/s at 4 flops per byte"),
    Wrong("12.3", "the higher roof", "return min(", "return max(", "higher of the two"),
    Wrong("12.3", "one after the other",
          "max(flops / peak, nbytes / bandwidth)", "flops / peak + nbytes / bandwidth", "go on at once"),
    Wrong("12.3", "the shorter time", "return max(", "return min(", "It waits for the other"),
    Wrong("12.3", "the check's machine",
          "return min(peak, bandwidth * intensity)", "return min(1000, 100 * intensity)", "A peak of 300"),
    Wrong("12.4", "plain SGD by hand, whatever the optimizer is", "    optimizer.step()\n",
          "    with torch.no_grad():\n        for weight in net.parameters():\n"
          "            weight -= optimizer.param_groups[0]['lr'] * weight.grad\n",
          "the given optimizer did not move them"),
    Wrong("12.4", "image by image", BATCH, LOOP, "still something for each image"),
    Wrong("12.4", "picked image by image",
          "prepared[rows]", "torch.stack([prepared[row] for row in rows.tolist()])",
          "still something for each image"),
    Wrong("12.4", "gradients pile up",
          "    optimizer.zero_grad()\n    loss =", "    loss =", "in each step?"),
    Wrong("12.4", "the data set in each step", [READY, "prepared[rows]"],
          ["return numbers", "((prepared - prepared.mean()) / prepared.std())[rows]"],
          "for the whole data set"),
    Wrong("12.4", "the batch's own mean", [READY, "prepared[rows]"],
          ["return numbers", "((prepared[rows] - prepared[rows].mean()) / prepared[rows].std())"],
          "the loss in step 1"),
    Wrong("12.4", "in two halves",
          ["loss.backward()", BATCH, "return loss.item()"], ["", HALVES, "return total"],
          "Give it all images of the batch at once"),
    Wrong("12.4", "an image that is drawn twice counts once",
          BATCH, "rows = rows.unique()\n    " + BATCH, "an image is twice in `rows`"),
    Wrong("12.4", "twice through the net", BATCH, f"{BATCH}\n    loss = {BATCH[7:]}", "or see it twice"),
    Wrong("12.4", "each colour's own mean", READY,
          "return (numbers - numbers.mean((0, 2, 3), keepdim=True)) / numbers.std((0, 2, 3), keepdim=True)",
          "the loss in step 1"),
]

RIGHT = [
    Right("12.1", "products of NumPy numbers, the result's shape first", [
          "flops = 2 * batch * inputs * outputs",
          "size * (batch * inputs + inputs * outputs + batch * outputs)"], [
          "flops = np.prod([2, batch, inputs, outputs])",
          "np.int64(size) * (inputs * (batch + outputs) + batch * outputs)"]),
    Right("12.1", "lists, the quotient cut by int", [
          "return flops, size * (batch * inputs + inputs * outputs + batch * outputs)",
          "(height + 2 * padding - kernel) // stride + 1"], [
          "return [flops, size * (batch * inputs + inputs * outputs + batch * outputs)]",
          "int((height + 2 * padding - kernel) / stride) + 1"]),
    Right("12.2", "torch.mm into a third matrix, the rate by .rate", [
          "a, b = torch.randn(n, n, device=device), torch.randn(n, n, device=device)",
          "return 2 * n**3 / timing.measure(lambda: a @ b, device=device, seconds=seconds).median"], [
          "a, b, c = (torch.rand(n, n, device=device) for _ in range(3))",
          "took = timing.measure(lambda: torch.mm(a, b, out=c), device=device, seconds=seconds)\n"
          "    return took.rate(2 * n**3)"]),
    Right("12.2", "a product with a number in place of a copy", [
          "source = torch.ones(nbytes // 4, device=device)", "target.copy_(source)"], [
          "source = torch.full((nbytes // 4,), 3.0, device=device)", "torch.mul(source, 2, out=target)"]),
    Right("12.2", "in place: as much is read as written", "target.copy_(source)", "source.add_(1)"),
    Right("12.2", "float64 in half as many numbers", ["torch.ones(nbytes // 4, device=device)",
          "return 2 * source.nbytes"], ["torch.ones(nbytes // 8, dtype=torch.float64, device=device)",
          "return 2 * nbytes"]),
    Right("12.3", "NumPy's minimum and maximum",
          ["min(peak,", "max(flops"], ["np.minimum(peak,", "np.maximum(flops"]),
    Right("12.3", "by the ridge", "return min(peak, bandwidth * intensity)",
          "return peak if intensity >= peak / bandwidth else bandwidth * intensity"),
    Right("12.4", "the batch is normalised by stored numbers", [
          READY, BATCH], ["return pixels, numbers.mean(), numbers.std()", """\
pixels, mean, std = prepared
    logits = net((pixels.index_select(0, rows).float() - mean) / std)
    loss = F.nll_loss(F.log_softmax(logits, dim=1), labels[rows])"""]),
    Right("12.4", "zero_grad last, a NumPy number", [
          "    optimizer.zero_grad()\n    loss =", "    optimizer.step()\n    return loss.item()"], [
          "    loss =",
          "    optimizer.step()\n    optimizer.zero_grad()\n    return loss.detach().cpu().numpy()[()]"]),
]
