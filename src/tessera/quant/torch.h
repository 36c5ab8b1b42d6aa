#pragma once
// The parts of LibTorch that layers above quant build on: tensors, autograd functions, modules. A translation unit that
// includes all of torch/torch.h costs half as much again, so only programs and tests do.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>
#include <torch/utils.h>
