#pragma once
// What eval and generate share: which checkpoint, and the numerics it runs in.
#include <CLI/App.hpp>
#include <cstdint>
#include <string>

#include "tessera/train/model_io.h"

namespace tessera::cli {

struct ModelArguments {
  std::string path;          ///< run folder or checkpoint folder
  std::string recipe, head;  ///< empty: as trained
  std::int64_t threads = 0;  ///< 0: as torch chooses
};

void declare_model_options(CLI::App& app, ModelArguments& arguments);

/// Set the threads and load; throws Error when there is no valid checkpoint.
train::LoadedModel load_model(const ModelArguments& arguments);

}  // namespace tessera::cli
