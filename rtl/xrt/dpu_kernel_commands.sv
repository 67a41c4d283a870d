// Does what a list of commands in memory says to the registers of dpu_top, and writes what it read to memory.
// One access at a time: a list is some hundred commands, a run millions of cycles. The report goes out in whole beats.
// A memory error or an unknown operation ends the run without the report's last beat, so the host misses END's value.

module dpu_kernel_commands #(
  localparam int unsigned AxilAddrW = $clog2(dpu_isa_pkg::RegSpaceBytes)
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,

  input  logic                 start_i,
  output logic                 done_o,
  input  dpu_pkg::axi_addr_t   commands_i,
  input  dpu_pkg::axi_addr_t   report_i,

  // registers of dpu_top
  output logic                 reg_awvalid_o,
  input  logic                 reg_awready_i,
  output logic [AxilAddrW-1:0] reg_addr_o,  // of writes and reads
  output logic                 reg_wvalid_o,
  input  logic                 reg_wready_i,
  output logic [31:0]          reg_wdata_o,
  input  logic                 reg_bvalid_i,
  output logic                 reg_bready_o,
  output logic                 reg_arvalid_o,
  input  logic                 reg_arready_i,
  input  logic                 reg_rvalid_i,
  output logic                 reg_rready_o,
  input  logic [31:0]          reg_rdata_i,

  // memory: single beats
  output logic                 ar_valid_o,
  input  logic                 ar_ready_i,
  output dpu_pkg::axi_addr_t   ar_addr_o,
  input  logic                 r_valid_i,
  output logic                 r_ready_o,
  input  dpu_pkg::beat_t       r_data_i,
  input  logic [1:0]           r_resp_i,
  output logic                 aw_valid_o,
  input  logic                 aw_ready_i,
  output dpu_pkg::axi_addr_t   aw_addr_o,
  output logic                 w_valid_o,
  input  logic                 w_ready_i,
  output dpu_pkg::beat_t       w_data_o,
  input  logic                 b_valid_i,
  output logic                 b_ready_o,
  input  logic [1:0]           b_resp_i
);

  import dpu_kernel_pkg::*;

  localparam int unsigned Commands = dpu_pkg::BeatBits / $bits(command_t);
  localparam int unsigned Words = dpu_pkg::BeatBits / 32;

  typedef command_t [Commands-1:0] list_t;

  typedef enum logic [3:0] {
    Idle,
    Fetch,
    FetchAnswer,
    Decode,
    Write,
    WriteAnswer,
    Read,
    ReadAnswer,
    Report,
    ReportAnswer,
    Finish
  } state_e;

  state_e                      state_q, state_d, next;
  logic                        aw_q, w_q;  // address, data of a write have been taken
  dpu_pkg::axi_addr_t          from_q, to_q;
  list_t                       list_q;
  logic [$clog2(Commands)-1:0] at_q;
  logic [Words-1:0][31:0]      report_q;
  logic [$clog2(Words)-1:0]    word_q;
  command_t                    command;
  logic                        ended, aw_done, w_done, step, append;
  logic [31:0]                 appended;

  assign command = list_q[0];
  assign ended   = command.op == OpEnd;
  assign next    = at_q == '1 ? Fetch : Decode;  // after this command

  assign done_o        = state_q == Finish;
  assign reg_addr_o    = command.address;
  assign reg_wdata_o   = command.value;
  assign reg_awvalid_o = state_q == Write & ~aw_q;
  assign reg_wvalid_o  = state_q == Write & ~w_q;
  assign reg_bready_o  = state_q == WriteAnswer;
  assign reg_arvalid_o = state_q == Read;
  assign reg_rready_o  = state_q == ReadAnswer;
  assign ar_valid_o    = state_q == Fetch;
  assign ar_addr_o     = from_q;
  assign r_ready_o     = state_q == FetchAnswer;
  assign aw_valid_o    = state_q == Report & ~aw_q;
  assign aw_addr_o     = to_q;
  assign w_valid_o     = state_q == Report & ~w_q;
  assign w_data_o      = dpu_pkg::beat_t'(report_q);
  assign b_ready_o     = state_q == ReportAnswer;

  assign aw_done = aw_q | (state_q == Write ? reg_awready_i : aw_ready_i);
  assign w_done  = w_q | (state_q == Write ? reg_wready_i : w_ready_i);

  assign append   = (state_q == ReadAnswer & reg_rvalid_i & command.op == OpRead) | (state_q == Decode & ended);
  assign appended = ended ? command.value : reg_rdata_i;

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      Idle: if (start_i) state_d = Fetch;
      Fetch: if (ar_ready_i) state_d = FetchAnswer;
      FetchAnswer: if (r_valid_i) state_d = r_resp_i == '0 ? Decode : Finish;
      Decode: begin
        unique case (command.op)
          OpEnd: state_d = Report;
          OpWrite: state_d = Write;
          OpWait, OpRead: state_d = Read;
          default: state_d = Finish;
        endcase
      end
      Write: if (aw_done && w_done) state_d = WriteAnswer;
      WriteAnswer: if (reg_bvalid_i) state_d = next;
      Read: if (reg_arready_i) state_d = ReadAnswer;
      ReadAnswer: begin
        if (reg_rvalid_i) begin
          if (command.op == OpRead) state_d = word_q == '1 ? Report : next;
          else state_d = (reg_rdata_i & command.value) == '0 ? next : Read;
        end
      end
      Report: if (aw_done && w_done) state_d = ReportAnswer;
      ReportAnswer: if (b_valid_i) state_d = ended || b_resp_i != '0 ? Finish : next;
      Finish: state_d = Idle;
      default: state_d = Idle;
    endcase
  end

  // A command is over when its last state is left for the next one.
  assign step = (state_q inside {WriteAnswer, ReadAnswer, ReportAnswer}) & (state_d inside {Decode, Fetch});

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      aw_q    <= 1'b0;
      w_q     <= 1'b0;
    end else begin
      state_q <= state_d;
      aw_q    <= (state_q inside {Write, Report}) & (state_d == state_q) & aw_done;
      w_q     <= (state_q inside {Write, Report}) & (state_d == state_q) & w_done;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      from_q <= '0;
      to_q   <= '0;
      list_q <= '0;
      at_q   <= '0;
    end else begin
      if (state_q == Idle) begin
        from_q <= commands_i;
        to_q   <= report_i;
      end else if (state_q == FetchAnswer && r_valid_i) begin
        from_q <= from_q + 64'(dpu_pkg::BeatBytes);
        list_q <= list_t'(r_data_i);
        at_q   <= '0;
      end else if (step) begin
        list_q <= list_q >> $bits(command_t);
        at_q   <= at_q + 1'b1;
      end
      if (state_q == ReportAnswer && b_valid_i) to_q <= to_q + 64'(dpu_pkg::BeatBytes);
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      report_q <= '0;
      word_q   <= '0;
    end else if (state_q == Idle || (state_q == ReportAnswer && b_valid_i)) begin
      report_q <= '0;
      word_q   <= '0;
    end else if (append) begin
      report_q[word_q] <= appended;
      word_q           <= word_q + 1'b1;
    end
  end

  // Waiver: the list has zeros there.
  logic unused;
  assign unused = ^command.zero;

endmodule
