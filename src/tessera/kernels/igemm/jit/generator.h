#pragma once
// Base of the generated kernels: a named piece of code in memory that is first written, then made executable.
//
//   class Foo : public Generator { public: Foo() : Generator("foo") { generate(); freeze(); } };
//   auto* run = foo.getCode<FooFn>();
//
// TESSERA_JIT_DUMP=<dir> writes <dir>/<name>.bin; read it with objdump -D -b binary -mi386:x86-64.
#include <string>

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#endif
#include <xbyak/xbyak.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

namespace tessera::kernels::jit {

class Generator : public Xbyak::CodeGenerator {
 public:
  const std::string& name() const { return name_; }

 protected:
  explicit Generator(std::string name);

  /// Resolve labels, take away write permission, give execute permission, dump if asked.
  void freeze();

  /// Save and restore the callee-saved registers that kernels use: rbx, rbp, r12, r13.
  void enter();
  void leave();

 private:
  std::string name_;
};

}  // namespace tessera::kernels::jit
