"""The nets of the labs: small ones to train, equal in every framework, and well-known ones to
count.

    start_weights    the digits' net as a list of NumPy arrays: the same numbers for one seed
    torch_digits     that net in PyTorch
    keras_digits     that net in Keras 3
    torch_conv       a convolutional net in PyTorch that computes much and sends little
    torch_blocks     a deep net in blocks, to be cut into stages
    layer_table      parameters, flops and activations of each layer of AlexNet, VGG-16, ResNet-50
                     and others

Training in NumPy, for virtual ranks:

    gradient         of the mean cross-entropy, by each of the weights
    percent_right    percent of images that the net gives their labels
    join, cut        weights or gradients as one flat vector, and back
"""

from labkit.nets.digits import keras_digits, start_weights, torch_blocks, torch_conv, torch_digits
from labkit.nets.layers import layer_table
from labkit.nets.training import cut, gradient, join, percent_right
