// tessera bench: gemm | linear | step, beside the reference libraries that torch brings.
#include <cstdlib>
#include <memory>

#include "bench/benches.h"
#include "bench/huge_pages.h"
#include "bench/step_command.h"
#include "command.h"
#include "options.h"
#include "tessera/base/check.h"
#include "tessera/quant/recipe.h"

namespace tessera::cli {
namespace {

// Products of GPT-2 124M at 4096 tokens: MLP up, QKV, attention output, MLP down.
const std::vector<std::string> kDefaultShapes = {"4096x768x3072", "4096x768x2304", "4096x768x768", "4096x3072x768"};

struct BenchArguments {
  std::vector<std::string> shapes, recipes;
  std::string json;
  BenchOptions options;
};

Shape parse_shape(const std::string& text) {
  std::int64_t sizes[3] = {};
  std::size_t begin = 0;
  for (int i = 0; i < 3; ++i) {
    const std::size_t end = i < 2 ? text.find('x', begin) : text.size();
    TESSERA_CHECK(end != std::string::npos, "--shape is '{}', expected ROWSxDEPTHxCOLUMNS, e.g. 4096x768x3072", text);
    sizes[i] = parse_integer("--shape " + text, text.substr(begin, end - begin), {.least = 1, .most = 1 << 20});
    begin = end + 1;
  }
  return {sizes[0], sizes[1], sizes[2]};
}

int run_bench(const BenchArguments& arguments, std::vector<BenchRow> (*bench)(const BenchOptions&)) {
  BenchOptions options = arguments.options;
  for (const std::string& shape : arguments.shapes) options.shapes.push_back(parse_shape(shape));
  for (const std::string& recipe : arguments.recipes) {
    quant::Recipe::named(recipe);  // an unknown name is an error before anything is measured
    options.recipes.push_back(recipe);
  }
  restart_with_huge_pages();
  print_setting(describe_setting(use_threads(options.threads)));
  if (std::getenv("TESSERA_FORCE_ISA") != nullptr && std::getenv("ONEDNN_MAX_CPU_ISA") == nullptr)
    fmt::print("TESSERA_FORCE_ISA holds back our kernels only; ONEDNN_MAX_CPU_ISA does the same to the peers.\n");
  const std::vector<BenchRow> rows = bench(options);
  print_rows(rows);
  if (!arguments.json.empty()) write_rows(arguments.json, rows);
  return kExitOk;
}

CLI::App* add_bench(CLI::App& app, const char* name, const char* summary, BenchArguments& arguments) {
  CLI::App* bench = app.add_subcommand(name, summary)->group("Benchmarks");
  bench->add_option("--shape", arguments.shapes, "rows x depth x columns of the product; may be repeated")
      ->option_text("MxKxN ... (default the four of GPT-2 124M at 4096 tokens)");
  add_integer(*bench, "--threads", arguments.options.threads, {.least = 0, .most = 4096},
              "threads of ours and peers; 0: as torch chooses");
  add_integer(*bench, "--rounds", arguments.options.timing.rounds, {.least = 1, .most = 100000},
              "interleaved samples; medians are reported");
  add_text(*bench, "--json", arguments.json, "FILE",
           "write rows {bench, case, ours, peer, ours_median_s, peer_median_s, ratio}");
  return bench;
}

}  // namespace

Action declare_bench(CLI::App& app) {
  app.require_subcommand(1);
  auto arguments = std::make_shared<BenchArguments>();
  auto action = std::make_shared<Action>();
  CLI::App* gemm = add_bench(app, "gemm", "integer GEMM beside fp32, bf16 and INT8 products", *arguments);
  gemm->callback([=] { *action = [=] { return run_bench(*arguments, bench_gemm); }; });
  CLI::App* linear = add_bench(app, "linear", "forward and backward of nn::Linear beside torch's", *arguments);
  linear->add_option("--recipe", arguments->recipes, "recipes to run; may be repeated")
      ->option_text("NAME ... (default all)");
  linear->callback([=] { *action = [=] { return run_bench(*arguments, bench_linear); }; });
  declare_bench_step(app, action);
  app.footer("Peers run at their best settings: malloc on huge pages, weights in the faster of both layouts.");
  return [=] {
    if (arguments->shapes.empty()) arguments->shapes = kDefaultShapes;
    if (arguments->recipes.empty()) arguments->recipes = quant::Recipe::names();
    return (*action)();
  };
}

}  // namespace tessera::cli
