"""Mistakes of learners in lab 10."""

from tests.labs.wrong_answers import Wrong

SMALL = {"epochs": 2, "sizes": (1, 128, 256)}

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
    Wrong("10.1", "one maximum for all rows",
          "logits.max(axis=1, keepdims=True)", "logits.max()", "near 1,000"),
    Wrong("10.1", "a small number against log(0)",
          LOG_P, "log_p = np.log(np.exp(z) / np.exp(z).sum(axis=1, keepdims=True) + 1e-9)", "near 1,000"),
    Wrong("10.1", "logarithm to base 2", "np.log(", "np.log2(", "the loss: expected"),
    Wrong("10.2", "a new array, dropped", "weights -=", "weights = weights -", "weights did not change"),
    Wrong("10.2", "a new bias, dropped", "bias -=", "bias = bias -", "bias did not change"),
    Wrong("10.2", "adds the gradient", ["weights -=", "bias -="], ["weights +=", "bias +="], "went uphill"),
    Wrong("10.2", "the gradient of the sum", "d = p / len(images)", "d = p", "gradient of the sum"),
    Wrong("10.2", "mean over the rows once more", "d.sum(axis=0)", "d.mean(axis=0)", "divide by N twice"),
    Wrong("10.2", "y is forgotten",
          "p[np.arange(len(labels)), labels] -= 1", "pass", "the gradient by weights"),
    Wrong("10.2", "1 off in all rows",
          "p[np.arange(len(labels)), labels]", "p[:, labels]", "the gradient by weights"),
    Wrong("10.2", "probabilities that do not add up to 1",
          "p /= p.sum(axis=1, keepdims=True)", "", "by weights"),
    Wrong("10.2", "no learning rate for the bias",
          "bias -= learning_rate * d", "bias -= d", "the gradient by bias"),
    Wrong("10.2", "softmax over the images", "p.sum(axis=1", "p.sum(axis=0", "the gradient by weights"),
    Wrong("10.3", "gradients add up", "optimizer.zero_grad()", "pass", "the loss of step 3"),
    Wrong("10.3", "gradients cleared before the update",
          ["optimizer.zero_grad()", "loss.backward()"], ["pass", "loss.backward(); optimizer.zero_grad()"],
          "weights do not move"),
    Wrong("10.3", "update before backward",
          "loss.backward()\n    optimizer.step()", "optimizer.step()\n    loss.backward()",
          "weights do not move"),
    Wrong("10.3", "no update", "optimizer.step()", "pass", "weights do not move"),
    Wrong("10.3", "softmax twice", "net(images)", "net(images).softmax(dim=1)", "Softmax twice"),
    Wrong("10.3", "sum of the losses",
          "net(images), labels)", 'net(images), labels, reduction="sum")', "the sum of the losses"),
    Wrong("10.3", "returns the tensor", "return loss.item()", "return loss", "keeps the recorded operations"),
    Wrong("10.3", "the loss of after the update",
          "return loss.item()", "return F.cross_entropy(net(images), labels).item()", "the loss of step 1"),
    Wrong("10.3", "a loss that wants log-probabilities",
          "F.cross_entropy", "F.nll_loss", "the loss of step 1"),
    Wrong("10.4", "measured in training mode", "net.eval()", "pass", "dropout wiped out"),
    Wrong("10.4", "records operations",
          "with torch.inference_mode():", "if True:", "Operations were recorded"),
    Wrong("10.4", "leaves the net in evaluation mode", "net.train(mode)", "pass", "net.training after"),
    Wrong("10.4", "always ends in training mode", "net.train(mode)", "net.train()", "net.training after"),
    Wrong("10.4", "a number of images, not a share", ".mean()", ".sum()", "a share of the images"),
    Wrong("10.4", "percent", ".mean().item()", ".mean().item() * 100", "a share of the images"),
    Wrong("10.4", "the best image of each digit", "argmax(dim=1)", "argmax(dim=0)", "RuntimeError"),
]
