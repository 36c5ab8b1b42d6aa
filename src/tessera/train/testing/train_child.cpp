// A training process for tests to stop and to kill: train_child KEY=VALUE...; exit codes as `tessera train`.
#include <cstdio>
#include <string>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/train/trainer.h"

int main(int argc, char** argv) {
  using namespace tessera;
  try {
    train::TrainConfig config;
    for (const std::string& argument : std::vector<std::string>(argv + 1, argv + argc)) {
      const std::size_t equals = argument.find('=');
      TESSERA_CHECK(equals != std::string::npos, "'{}' is not KEY=VALUE", argument);
      const std::vector<std::string> value{argument.substr(equals + 1)};
      train::set_value(config, train::find_key(argument.substr(0, equals), "argument"), value, "argument");
    }
    const train::TrainResult result = train::Trainer(config).run();
    std::puts(result.message.c_str());
    return result.exit_code();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
