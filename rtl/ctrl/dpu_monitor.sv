// Watches a tile's engines: takes the first fault and stops the tile, says what is stuck and whether anything moves,
// and counts what each engine does in each cycle (one of busy, port, wait, empty, or none).
// Of faults in one cycle the order is LOAD, MXU, VPU, STORE, dispatch.

module dpu_monitor (
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  logic                    clear_i,  // start: counters to zero

  // engines, by `engine_e`
  input  logic [3:0]              starts_i,
  input  logic [3:0]              done_i,
  input  logic [3:0]              busy_i,
  input  logic [3:0]              stall_i,
  input  dpu_pkg::fault_t [3:0]   fault_i,
  input  logic [31:0]             overflows_i,
  input  logic [31:0]             nans_i,
  input  logic [31:0]             read_bytes_i,
  input  logic [31:0]             written_bytes_i,
  input  logic [4:0]              axi_moved_i,  // a handshake on each channel

  // sequencer
  input  logic                    running_i,
  input  logic                    ended_i,
  input  logic                    progress_i,
  input  logic [3:0]              held_i,
  input  logic [3:0]              tokenless_i,
  input  logic [3:0]              idle_i,
  input  logic [3:0][31:0]        at_i,
  input  logic [31:0]             fetched_i,
  input  dpu_pkg::report_t        fault_seq_i,

  // control
  input  logic                    stop_i,
  output logic                    stop_o,  // to all engines
  output logic                    progress_o,
  output dpu_pkg::report_t        fault_o,
  output dpu_pkg::report_t        stuck_o,

  // registers
  input  logic                    cnt_read_i,
  input  logic [7:2]              cnt_offset_i,
  output logic [63:0]             cnt_value_o,
  output logic                    cnt_wide_o,
  output logic                    cnt_high_o
);

  import dpu_isa_pkg::*;
  import dpu_pkg::*;

  // Faults, and the stop that they cause in the next cycle.

  report_t fault_d, fault_q;
  logic    stop_q, progress_q;

  always_comb begin
    fault_d = fault_seq_i;
    for (int unsigned e = 4; e > 0; e--) begin
      if (fault_i[e-1].valid) fault_d = '{tile: '0, engine: engine_e'(4'(e - 1)), fault: fault_i[e-1]};
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      stop_q     <= 1'b0;
      fault_q    <= '0;
      progress_q <= 1'b0;
    end else begin
      stop_q     <= stop_q | stop_i | fault_d.fault.valid;
      progress_q <= progress_i | (busy_i != '0) | (axi_moved_i != '0);
      if (fault_d.fault.valid && !stop_q) fault_q <= fault_d;
    end
  end

  assign stop_o     = stop_q;
  assign fault_o    = fault_q;
  assign progress_o = progress_q;

  // The oldest word that has not ended; without one, fetch is what is stuck.
  always_comb begin
    stuck_o = '{tile: '0, engine: EngineCtrl,
                fault: '{valid: 1'b1, code: ErrorWatchdog, index: fetched_i, address: '0}};
    for (int unsigned e = 0; e < 4; e++) begin
      if (!idle_i[e] && at_i[e] < stuck_o.fault.index) begin
        stuck_o.engine      = engine_e'(4'(e));
        stuck_o.fault.index = at_i[e];
      end
    end
  end

  // Counters.

  logic [3:0] live;

  assign live = {4{running_i & ~stop_q}};

  dpu_counters u_counters (
    .clk_i,
    .rst_ni,
    .clear_i,
    .done_i,
    .busy_i   (live & busy_i),
    .port_i   (live & ~busy_i & (stall_i | (held_i & ~tokenless_i & ~starts_i))),
    .wait_i   (live & ~busy_i & ~stall_i & tokenless_i),
    .empty_i  (live & ~busy_i & ~stall_i & ~held_i & {4{~ended_i}}),
    .at_i,
    .fetched_i,
    .overflows_i,
    .nans_i,
    .read_bytes_i,
    .written_bytes_i,
    .read_i   (cnt_read_i),
    .offset_i (cnt_offset_i),
    .value_o  (cnt_value_o),
    .wide_o   (cnt_wide_o),
    .high_o   (cnt_high_o)
  );

endmodule
