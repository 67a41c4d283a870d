// Hands each word of the stream to the queue of its engine, one a cycle and in order; a full queue stops it.
// Checks what no engine can: the opcode, tiles that `remote` names, that the stream has an END, and that DRAM gave it.
// END is the last word; it stays here until the tile has ended.

module dpu_dispatch #(
  parameter int unsigned Tiles = 1
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 stop_i,

  input  logic                 start_i,
  input  dpu_pkg::axi_addr_t   program_i,

  // from fetch
  input  logic                 word_valid_i,
  output logic                 word_ready_o,
  input  dpu_pkg::word_t       word_i,
  input  logic                 word_error_i,
  input  logic                 exhausted_i,

  // to the queues, by engine; the word goes to all
  output logic [3:0]           push_valid_o,
  input  logic [3:0]           push_ready_i,
  output logic [31:0]          index_o,

  output logic                 end_o,    // END, one cycle
  output logic                 ended_o,  // since then
  output logic                 irq_o,    // that END asks for the interrupt
  output dpu_pkg::fault_t      fault_o,
  output dpu_isa_pkg::engine_e fault_engine_o
);

  import dpu_isa_pkg::*;

  logic [31:0]        index_q;
  logic               ended_q, irq_q;
  dpu_pkg::axi_addr_t program_q;
  dma_word_t          word;
  logic [3:0]         target;
  logic               dma, far, legal, go;
  error_e             code;
  logic               unused;

  assign word   = dma_word_t'(word_i);
  assign unused = ^word;

  assign target[EngineLoad[1:0]]  = word.opcode == OpcodeLoad;
  assign target[EngineMxu[1:0]]   = word.opcode == OpcodeMm;
  assign target[EngineVpu[1:0]]   = word.opcode == OpcodeVec;
  assign target[EngineStore[1:0]] = word.opcode == OpcodeStore;

  assign dma   = target[EngineLoad[1:0]] | target[EngineStore[1:0]];
  assign far   = dma & ((64'(word.remote) >> Tiles) != '0);
  assign legal = (target != '0) | (word.opcode == OpcodeEnd);

  always_comb begin
    code = ErrorNone;
    if (exhausted_i) code = ErrorFetch;
    else if (word_valid_i) begin
      if (word_error_i) code = ErrorDram;
      else if (!legal) code = ErrorOpcode;
      else if (far) code = ErrorField;
    end
  end

  assign go           = word_valid_i & (code == ErrorNone) & ~ended_q & ~stop_i;
  assign push_valid_o = go ? target : '0;
  assign end_o        = go & (word.opcode == OpcodeEnd);
  assign word_ready_o = end_o | ((push_valid_o & push_ready_i) != '0);
  assign index_o      = index_q;
  assign ended_o      = ended_q;
  assign irq_o        = irq_q;

  assign fault_o = '{valid: (code != ErrorNone) & ~ended_q & ~stop_i, code: code, index: index_q,
                     address: (code == ErrorField) ? '0 : program_q + (64'(index_q) << 6)};
  assign fault_engine_o = (code != ErrorField) ? EngineCtrl : target[EngineLoad[1:0]] ? EngineLoad : EngineStore;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      index_q   <= '0;
      ended_q   <= 1'b0;
      irq_q     <= 1'b0;
      program_q <= '0;
    end else if (start_i) begin
      index_q   <= '0;
      ended_q   <= 1'b0;
      irq_q     <= 1'b0;
      program_q <= program_i;
    end else begin
      if (word_valid_i && word_ready_o) index_q <= index_q + 32'd1;
      if (end_o) begin
        ended_q <= 1'b1;
        irq_q   <= (word.flags & FlagIrq) != '0;
      end
    end
  end

endmodule
