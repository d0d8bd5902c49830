"""Mistakes of learners in lab 10."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"epochs": 2, "seeds": (0,), "workload": "tiny"}

LOSS = "log_p[np.arange(len(labels)), labels]"
LOG_P = "log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))"

# fmt: off
WRONG = [
    Wrong("10.1", "the sum over the images", ".mean()", ".sum()", "mean, not sum"),
    Wrong("10.1", "no minus sign", "return -log_p", "return log_p", "mind the minus"),
    Wrong("10.1", "one loss per image", ".mean()", "", "one loss, a number"),
    Wrong("10.1", "softmax over the images", ".sum(axis=1", ".sum(axis=0", "depends on its batch"),
    Wrong("10.1", "all columns of every row", LOSS, "log_p[:, labels]", "depends on its batch"),
    Wrong("10.1", "mean over images and classes", LOSS, "(np.eye(4)[labels] * log_p)", "0.25 times"),
    Wrong("10.1", "nothing against overflow",
          "logits - logits.max(axis=1, keepdims=True)", "logits", "near 1,000"),
    Wrong("10.1", "a small number against log(0)",
          LOG_P, "log_p = np.log(np.exp(z) / np.exp(z).sum(axis=1, keepdims=True) + 1e-9)", "near 1,000"),
    Wrong("10.1", "PyTorch's own loss", f"return -{LOSS}.mean()",
          "return F.cross_entropy(torch.tensor(logits), torch.tensor(labels)).item()", "with NumPy"),
    Wrong("10.1", "PyTorch's own loss of log-probabilities", f"return -{LOSS}.mean()",
          "return F.nll_loss(torch.log_softmax(torch.tensor(logits), 1), torch.tensor(labels)).item()",
          "with NumPy"),
    Wrong("10.1", "logarithm to base 2", "np.log(", "np.log2(", "the loss: expected"),
    Wrong("10.1", "the caller's logits are written over",
          "z = logits - logits.max(axis=1, keepdims=True)",
          "z = logits\n    z -= logits.max(axis=1, keepdims=True)", "The array of logits was changed"),
    Wrong("10.1", "the largest of the whole batch is taken off",
          "logits.max(axis=1, keepdims=True)", "logits.max()", "near 1,000"),
    Wrong("10.1", "the number as text", f"return -{LOSS}.mean()", f"return str(-{LOSS}.mean())",
          "one loss, a number"),
    Wrong("10.1", "rounded to two decimals", f"-{LOSS}.mean()", f"round(float(-{LOSS}.mean()), 2)",
          "off by"),
    Wrong("10.1", "an integer", f"-{LOSS}.mean()", f"int(-{LOSS}.mean())", "do not round it"),
    Wrong("10.1", "a batch's size by heart", f"-{LOSS}.mean()", f"-{LOSS}.sum() / 128",
          "the sum divided by 128"),
    Wrong("10.1", "the caller's labels are written over", f"return -{LOSS}.mean()",
          f"loss = -{LOSS}.mean()\n    labels[:] = 0\n    return loss", "The array of labels was changed"),
    Wrong("10.2", "as many classes as the batch's labels have", "p[np.arange(len(labels)), labels] -= 1",
          "p = p - np.eye(labels.max() + 1)[labels]", "no image is of the last class"),
    Wrong("10.2", "the notebook's batch by heart", "p / len(images)", "p / 128", "You divide by 128"),
    Wrong("10.2", "the rate is ignored", "weights -= learning_rate *", "weights -=",
          "does not use learning_rate"),
    Wrong("10.2", "the notebook's rate, whatever is given", "z = images @", "learning_rate = 0.2\n    z = images @",
          "a rate of 0.2"),
    Wrong("10.2", "the bias follows a gradient of the new weights", "bias -= learning_rate * d.sum(axis=0)",
          "z = images @ weights + bias\n    p = np.exp(z - z.max(axis=1, keepdims=True))\n"
          "    p /= p.sum(axis=1, keepdims=True)\n    p -= np.eye(len(bias))[labels]\n"
          "    bias -= learning_rate * p.mean(axis=0)", "Compute d once"),
    Wrong("10.2", "the caller's images are centered in place", "    z = images @",
          "    images -= images.mean(axis=0)\n    z = images @", "images or of labels was changed"),
    Wrong("10.2", "the bias left out of the logits", "images @ weights + bias", "images @ weights",
          "the bias is missing"),
    Wrong("10.2", "nothing against overflow", "z - z.max(axis=1, keepdims=True)", "z", "exp overflows"),
    Wrong("10.2", "a number of images by heart", "p / len(images)", "p / 6", "3 images, rate 0.1"),
    Wrong("10.2", "a new array, dropped", "weights -=", "weights = weights -", "weights did not change"),
    Wrong("10.2", "adds the gradient", ["weights -=", "bias -="], ["weights +=", "bias +="], "went uphill"),
    Wrong("10.2", "the gradient of the sum", "d = p / len(images)", "d = p", "gradient of the sum"),
    Wrong("10.2", "mean over the rows once more", "d.sum(axis=0)", "d.mean(axis=0)", "sum its rows"),
    Wrong("10.2", "y is forgotten",
          "p[np.arange(len(labels)), labels] -= 1", "pass", "y is missing"),
    Wrong("10.2", "1 off everywhere",
          "p[np.arange(len(labels)), labels] -= 1", "p -= 1", "the gradient by weights"),
    Wrong("10.2", "all of d is summed for the bias", "d.sum(axis=0)", "d.sum()", "Sum over the rows only"),
    Wrong("10.2", "softmax over the images", "p.sum(axis=1", "p.sum(axis=0", "the gradient by weights"),
    Wrong("10.3", "trains in evaluation mode", "    optimizer.zero_grad()\n",
          "    net.eval()\n    optimizer.zero_grad()\n", "left the net in evaluation mode"),
    Wrong("10.3", "evaluation mode during the step", ["    optimizer.zero_grad()\n", "optimizer.step()\n"],
          ["    net.eval()\n    optimizer.zero_grad()\n", "optimizer.step()\n    net.train()\n"],
          "the forward pass in evaluation mode"),
    Wrong("10.3", "64 images at most", "    optimizer.zero_grad()\n",
          "    images, labels = images[:64], labels[:64]\n    optimizer.zero_grad()\n",
          "the loss of step 4, 200 images: expected"),
    Wrong("10.3", "the caller's images are scaled in place", "    optimizer.zero_grad()\n",
          "    images /= 2\n    optimizer.zero_grad()\n", "images or of labels was changed"),
    Wrong("10.3", "a second forward pass for the loss that it returns", "    loss.backward()",
          "    before = F.cross_entropy(net(images), labels)\n    loss.backward()",
          "called the net 2 times"),
    Wrong("10.3", "a new optimizer with the notebook's rate", "    optimizer.zero_grad()\n",
          "    optimizer = torch.optim.SGD(net.parameters(), lr=learning_rate)\n"
          "    optimizer.zero_grad()\n", "how far step 1 moved the weights"),
    Wrong("10.3", "the first labels of all, whatever the images are", "F.cross_entropy(net(images), labels)",
          "F.cross_entropy(net(images), train_y[: len(images)])", "the loss of step 1, 8 images: expected"),
    Wrong("10.3", "gradients add up", "optimizer.zero_grad()", "pass", "Gradients of the steps before"),
    Wrong("10.3", "gradients cleared before the update",
          ["optimizer.zero_grad()", "loss.backward()"], ["pass", "loss.backward(); optimizer.zero_grad()"],
          "clear before both"),
    Wrong("10.3", "update before backward",
          "loss.backward()\n    optimizer.step()", "optimizer.step()\n    loss.backward()",
          "clear before both"),
    Wrong("10.3", "softmax twice", "net(images)", "net(images).softmax(dim=1)", "Softmax twice"),
    Wrong("10.3", "plain SGD by hand, whatever the optimizer is", "    optimizer.step()\n",
          "    with torch.no_grad():\n        for weight in net.parameters():\n"
          "            weight -= optimizer.param_groups[0]['lr'] * weight.grad\n",
          "the given optimizer did not move them"),
    Wrong("10.3", "a new optimizer in each step", "    optimizer.zero_grad()\n",
          "    optimizer = torch.optim.SGD(net.parameters(), lr=optimizer.param_groups[0]['lr'])\n"
          "    optimizer.zero_grad()\n", "the given optimizer did not move them"),
    Wrong("10.3", "sum of the losses",
          "net(images), labels)", 'net(images), labels, reduction="sum")', "the sum of the losses"),
    Wrong("10.3", "backward of the sum, and the mean returned",
          ["net(images), labels)", "return loss.item()"],
          ['net(images), labels, reduction="sum")', "return loss.item() / len(images)"],
          "8 times the right one"),
    Wrong("10.3", "updates twice",
          "    optimizer.step()\n", "    optimizer.step()\n    optimizer.step()\n",
          "The update was made twice"),
    Wrong("10.3", "nothing returned", "return loss.item()", "pass", "got None. Does the function return"),
    Wrong("10.3", "returns the tensor", "return loss.item()", "return loss", "keeps the recorded operations"),
    Wrong("10.3", "the loss of after the update",
          "return loss.item()", "return F.cross_entropy(net(images), labels).item()",
          "his is the loss after the update"),
    Wrong("10.4", "measured in training mode", "net.eval()", "pass", "dropout wiped out"),
    Wrong("10.4", "records operations",
          "with torch.inference_mode():", "if True:", "Operations were recorded"),
    Wrong("10.4", "recording switched off for good", "with torch.inference_mode():",
          "torch.set_grad_enabled(False)\n    if True:", "nothing can be trained"),
    Wrong("10.4", "weights that no longer learn", "with torch.inference_mode():",
          "net.requires_grad_(False)\n    if True:", "nothing can be trained"),
    Wrong("10.4", "leaves the net in evaluation mode", "net.train(mode)", "pass", "net.training after"),
    Wrong("10.4", "evaluation mode for the net alone", "net.eval()", "net.training = False",
          "dropout wiped out"),
    Wrong("10.4", "sets the mode of the net alone", "net.train(mode)", "net.training = mode",
          "but its layers do not"),
    Wrong("10.4", "the caller's images are scaled in place", "mode = net.training",
          "images *= 0.5\n    mode = net.training", "images or of labels was changed"),
    Wrong("10.4", "the gradients are cleared", "net.train(mode)", "net.train(mode)\n    net.zero_grad()",
          "cleared the gradients"),
    Wrong("10.4", "a number of images, not a share", ".mean()", ".sum()", "This counts the images"),
    Wrong("10.4", "percent", ".mean().item()", ".mean().item() * 100", "This is in percent"),
    Wrong("10.4", "a tensor", ".mean().item()", ".mean()", "this is a tensor"),
    Wrong("10.4", "the number of test images by heart", "(guess == labels).float().mean().item()",
          "(guess == labels).sum().item() / 261", "a share of the 100 images"),
    Wrong("10.4", "the net runs twice",
          "guess = net(images).argmax(dim=1)", "net(images)\n        guess = net(images).argmax(dim=1)",
          "called 2 times"),
]

RIGHT = [
    Right("10.1", "a loop over the images", f"    return -{LOSS}.mean()", """\
    total = 0.0
    for row, label in enumerate(labels):
        total -= log_p[row][label]
    return total / len(labels)"""),
    Right("10.1", "one-hot labels, NumPy's logaddexp", [LOG_P, LOSS + ".mean()"], [
          "log_p = z - np.logaddexp.reduce(z, axis=1, keepdims=True)",
          "np.mean(np.sum(np.eye(logits.shape[1])[labels] * log_p, axis=1))"]),
    Right("10.2", "one-hot labels, in place by np.subtract and [...]", [
          "    p[np.arange(len(labels)), labels] -= 1\n", "weights -= learning_rate * images.T @ d",
          "bias -= learning_rate * d.sum(axis=0)"], [
          "    p = p - (np.arange(len(bias)) == np.asarray(labels)[:, None])\n",
          "np.subtract(weights, learning_rate * (images.T @ d), out=weights)",
          "bias[...] = bias - learning_rate * d.sum(0)"]),
    Right("10.2", "the mean over the images at the end", [
          "d = p / len(images)", "images.T @ d", "d.sum(axis=0)"], [
          "d = p", "(images[:, :, None] * d[:, None, :]).mean(axis=0)", "d.mean(axis=0)"]),
    Right("10.3", "a NumPy number, the gradients cleared by hand", [
          "optimizer.zero_grad()", "return loss.item()"], [
          "for weight in net.parameters():\n        weight.grad = None",
          "return loss.detach().cpu().numpy()[()]"]),
    Right("10.3", "cleared after the update, a module for the loss", [
          "    optimizer.zero_grad()\n", "F.cross_entropy(net(images), labels)",
          "optimizer.step()\n"], [
          "", "torch.nn.CrossEntropyLoss()(input=net(images), target=labels)",
          "optimizer.step()\n    optimizer.zero_grad()\n"]),
    Right("10.3", "a closure", [
          "    optimizer.zero_grad()\n", "    loss = F", "    loss.backward()\n    optimizer.step()\n",
          "return loss.item()"], [
          "    def loss_of_batch():\n        optimizer.zero_grad()\n", "        loss = F",
          "        loss.backward()\n        return loss\n", "return optimizer.step(loss_of_batch).item()"]),
    Right("10.4", "each layer's own mode comes back", ["mode = net.training", "net.train(mode)"], [
          "modes = [(layer, layer.training) for layer in net.modules()]",
          "for layer, mode in modes:\n        layer.training = mode"]),
    Right("10.4", "no_grad, and counted", [
          "torch.inference_mode()", "(guess == labels).float().mean().item()"], [
          "torch.no_grad()", "int((guess == labels).sum()) / len(labels)"]),
    Right("10.4", "a decorator in place of with, max, a NumPy number", [
          "    with torch.inference_mode():\n        guess = net(images).argmax(dim=1)\n",
          "(guess == labels).float().mean().item()"], [
          "    guess = torch.inference_mode()(net)(images).max(dim=1).indices\n",
          "np.mean((guess == labels).cpu().numpy())"]),
]
