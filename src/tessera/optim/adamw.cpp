#include "tessera/optim/adamw.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/kernels/adamw/adamw.h"

namespace tessera::optim {
namespace {

void check_options(const AdamWOptions& options) {
  const auto check_beta = [](const char* name, float beta) {
    TESSERA_CHECK(beta >= 0 && beta < 1, "{} is {}, expected at least 0 and below 1", name, beta);
  };
  check_beta("beta1", options.beta1);
  check_beta("beta2", options.beta2);
  TESSERA_CHECK(options.eps > 0 && std::isfinite(options.eps), "eps is {}, expected a number above 0", options.eps);
  TESSERA_CHECK(options.weight_decay >= 0 && std::isfinite(options.weight_decay),
                "weight decay is {}, expected a number that is at least 0", options.weight_decay);
}

AlignedBuffer<float> zeros(std::int64_t size) {
  AlignedBuffer<float> buffer(static_cast<std::size_t>(size));
  std::fill_n(buffer.data(), buffer.size(), 0.0f);
  return buffer;
}

}  // namespace

AdamW::AdamW(AdamWOptions options, std::vector<ParameterInfo> parameters)
    : options_(options), parameters_(std::move(parameters)) {
  check_options(options_);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const ParameterInfo& info = parameters_[i];
    TESSERA_CHECK(info.size >= 0, "parameter '{}' has {} elements", info.name, info.size);
    TESSERA_CHECK(index_.emplace(info.name, i).second, "two parameters are called '{}'", info.name);
  }
  for (const ParameterInfo& info : parameters_) {
    m_.push_back(zeros(info.size));
    v_.push_back(zeros(info.size));
  }
}

std::size_t AdamW::index_of(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  TESSERA_CHECK(found != index_.end(), "the optimizer has no parameter '{}'", name);
  return found->second;
}

std::vector<std::size_t> AdamW::match(std::span<const Parameter> parameters) const {
  std::vector<std::size_t> indices;
  std::vector<bool> seen(parameters_.size(), false);
  for (const Parameter& parameter : parameters) {
    const std::size_t i = index_of(parameter.name);
    const auto size = static_cast<std::size_t>(parameters_[i].size);
    TESSERA_CHECK(!seen[i], "parameter '{}' is given twice", parameter.name);
    TESSERA_CHECK(parameter.value.size() == size, "parameter '{}' has {} elements, the optimizer expects {}",
                  parameter.name, parameter.value.size(), size);
    TESSERA_CHECK(parameter.gradient.size() == size, "the gradient of '{}' has {} elements, the optimizer expects {}",
                  parameter.name, parameter.gradient.size(), size);
    seen[i] = true;
    indices.push_back(i);
  }
  for (std::size_t i = 0; i < seen.size(); ++i)
    TESSERA_CHECK(seen[i], "parameter '{}' is missing from the step", parameters_[i].name);
  return indices;
}

void AdamW::step(std::span<const Parameter> parameters, float lr, float grad_scale) {
  TESSERA_CHECK(std::isfinite(lr) && lr >= 0, "the learning rate is {}, expected a number that is at least 0", lr);
  TESSERA_CHECK(std::isfinite(grad_scale) && grad_scale >= 0,
                "the gradient's scale is {}, expected a number that is at least 0", grad_scale);
  const std::vector<std::size_t> indices = match(parameters);
  ++steps_;
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const std::size_t i = indices[k];
    kernels::AdamWParams params;
    params.n = parameters_[i].size;
    params.parameter = parameters[k].value.data();
    params.gradient = parameters[k].gradient.data();
    params.m = m_[i].data();
    params.v = v_[i].data();
    params.grad_scale = grad_scale;
    params.lr = lr;
    params.beta1 = options_.beta1;
    params.beta2 = options_.beta2;
    params.eps = options_.eps;
    params.weight_decay = parameters_[i].decay ? options_.weight_decay : 0;
    params.t = steps_;
    kernels::adamw(params);
  }
}

Moments AdamW::moments(std::string_view name) {
  const std::size_t i = index_of(name);
  return {m_[i].span(), v_[i].span()};
}

void AdamW::set_steps(std::int64_t steps) {
  TESSERA_CHECK(steps >= 0, "the optimizer's step count is {}, expected at least 0", steps);
  steps_ = steps;
}

}  // namespace tessera::optim
