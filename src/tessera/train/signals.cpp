#include "tessera/train/signals.h"

#include <signal.h>
#include <unistd.h>

#include <csignal>

#include "tessera/base/check.h"

namespace tessera::train {
namespace {

volatile std::sig_atomic_t received_signal = 0;
bool installed = false;
struct sigaction previous_interrupt, previous_terminate;

void on_signal(int signal) {
  if (received_signal != 0) {
    ::_exit(128 + signal);  // the user insists: checkpoints are complete or absent at any moment
  }
  received_signal = signal;
}

}  // namespace

StopSignals::StopSignals() {
  TESSERA_DCHECK(!installed);
  installed = true;
  received_signal = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  ::sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, &previous_interrupt);
  ::sigaction(SIGTERM, &action, &previous_terminate);
}

StopSignals::~StopSignals() {
  ::sigaction(SIGINT, &previous_interrupt, nullptr);
  ::sigaction(SIGTERM, &previous_terminate, nullptr);
  installed = false;
}

int StopSignals::received() const { return received_signal; }

}  // namespace tessera::train
